#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# measure.sh - everything that docs/gpu-results.md needs from a machine with NVIDIA GPUs: cost of
# each call, of our rounds, and our figures beside nvidia-smi's, idle and under load.
#
#     bench/gpu/measure.sh [BENCH_GPU]      default build/bench/bench_gpu
#
# Needs no build tools: bench_gpu links only the C library. Takes about three minutes. Load is a
# matrix product in PyTorch, if python3 has it. With LAPSE_NVML=…/libnvidia-ml-fake.so it shows itself at
# work without a GPU; SHORT=1 leaves out the waits.
set -u
here=$(dirname "$0")
gpu=${1:-build/bench/bench_gpu}
if [ -n "${LAPSE_NVML:-}" ]; then
	export NVIDIA_SMI="$gpu smi"
fi
smi=${NVIDIA_SMI:-nvidia-smi}
long=${SHORT:+2}
long=${long:-12}

head_of() { printf '\n== %s\n' "$*"; }

heads() { # field by field: head and value of both, where they differ
	local list
	list=$($gpu smi --help-query-gpu | grep -v -e '^timestamp$' | paste -sd,)
	if ! $smi --query-gpu="$list" --format=csv >/tmp/measure-smi.$$ 2>&1; then
		echo "nvidia-smi refuses the whole list: $(tail -1 /tmp/measure-smi.$$); one by one"
		for f in ${list//,/ }; do
			$smi --query-gpu="$f" --format=csv >/tmp/measure-one.$$ 2>&1 ||
				echo "nvidia-smi does not know $f: $(tail -1 /tmp/measure-one.$$)"
			paste -d'|' /tmp/measure-one.$$ <($gpu smi --query-gpu="$f" --format=csv) |
				awk -F'|' -v f="$f" '$1 != $2 { print f ": nvidia-smi \"" $1 "\", lapse \"" $2 "\"" }'
		done
	else
		$gpu smi --query-gpu="$list" --format=csv >/tmp/measure-ours.$$
		python3 - /tmp/measure-smi.$$ /tmp/measure-ours.$$ <<-'PY'
			import sys
			theirs, ours = ([l.rstrip("\n").split(", ") for l in open(p)] for p in sys.argv[1:])
			same = 0
			for row, (a, b) in enumerate(zip(theirs, ours)):
			    if len(a) != len(b):
			        print(f"line {row}: {len(a)} values, ours {len(b)}")
			    for i, (x, y) in enumerate(zip(a, b)):
			        if x == y:
			            same += 1
			        else:
			            print(f"line {row}, {ours[0][i]}: nvidia-smi \"{x}\", lapse \"{y}\"")
			print(f"{same} heads and values are the same to the letter")
		PY
	fi
	rm -f /tmp/measure-*.$$
}

counters() { # the driver's counters of throttling, to hold beside fields 74 to 79
	$smi --query-gpu=clocks_event_reasons_counters.sw_power_cap,clocks_event_reasons_counters.sw_thermal_slowdown,clocks_event_reasons_counters.hw_thermal_slowdown,clocks_event_reasons_counters.hw_power_brake_slowdown,clocks_event_reasons_counters.sync_boost \
		--format=csv 2>&1 | tail -2
}

head_of machine
date -u +%Y-%m-%dT%H:%MZ
uname -r
$smi --query-gpu=index,name,driver_version,pci.bus_id,pstate,persistence_mode,mig.mode.current,ecc.mode.current --format=csv 2>&1
head_of "fields (type 1 is 32 bits, 3 is 64)"
counters
$gpu fields
head_of "calls, idle"
$gpu calls
head_of "rounds, idle"
$gpu rounds
head_of "heads and values to the letter, idle"
heads
head_of "beside nvidia-smi, idle"
$gpu compare
head_of "figures, idle"
$gpu values

if ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
	head_of "no load: python3 has no PyTorch with CUDA here"
	exit 0
fi
head_of "load: products of 8192 x 8192 in bfloat16, a line each 2 s"
python3 -u "$here/load.py" &
load=$!
trap 'kill $load 2>/dev/null' EXIT
sleep 10
echo "-- without reading"
sleep "$long"
echo "-- read as an agent does, each second"
$gpu loop "$long"
echo "-- without reading"
sleep "$long"
head_of "calls, under load"
$gpu calls
head_of "rounds, under load"
$gpu rounds
head_of "beside nvidia-smi, under load"
$gpu compare
head_of "figures, under load"
counters
$gpu fields
$gpu values
