# SPDX-License-Identifier: Apache-2.0
"""TrainingMonitor: a training loop that logs each of its steps by one call, and what the
guide writes of it. The loss may be a tensor: nothing waits for a device."""

from __future__ import annotations

import atexit
import importlib
import itertools
import logging
import os
import sys
import threading
import time
import warnings
from collections import deque
from functools import partial
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any

from ... import _callback, _core, _dashboard, _events, _run
from ..._distributed import Ranks
from ..._ranks import rank_and_world
from ..._tell import tell_once
from . import _database, _report
from ._advice import recommend
from ._alerts import AlertSystem
from ._cap import Cap
from ._frames import frame_of, row_of, samples_of, tags_of, take
from ._metrics import ModelPerformanceMetrics, SystemMetrics, TrainingMetrics, known
from ._models import gradients_of, inference, to_device
from ._settings import settings
from ._system import SystemMonitor

if TYPE_CHECKING:
    from collections.abc import Mapping

_hook = _callback.guard("monitor")
PENDING_MAX = 4096  # steps whose values are still on a device
GRADIENTS_MAX = 64  # steps that wait for the norm of their gradients alone
MIB = float(1 << 20)
_LOG_BYTES, _LOG_FILES = 100 << 20, 5


class _Pending:
    """A step whose values are on their way."""

    __slots__ = ("metrics", "norm", "samples", "step", "time_ns", "waiting")

    def __init__(self, metrics: TrainingMetrics, step: int, norm: Any) -> None:
        self.metrics, self.step = metrics, step
        self.norm = norm  # of its gradients; None: they are not measured
        self.time_ns = _core.now()
        self.waiting = 0


class TrainingMonitor:
    """Logs a training loop as the performance monitoring guide does, into lapse's run.

    config: a dict, the path of a YAML file, or None. thresholds: one of PRESETS, which the
    configuration's thresholds go before. console_style: "none" prints nothing.
    `dashboard` (its address), `alert_system`, `system_monitor` (another may be assigned),
    `gradients` (a lapse.torch.Gradients, once a model was logged), `current_epoch` (assign it),
    `missing` (what the configuration asks for and is not there, with the reason; each is a
    warning too). Nothing raises in training; a wrong argument or configuration is a ValueError.

    It records into the program's run if there is one, else into one of its own, which
    stop_monitoring() ends."""

    def __init__(
        self,
        config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        thresholds: str = "monitor",
        console_style: str | None = None,
    ) -> None:
        from ..._console import style_of

        self._settings = found = settings(config, thresholds)
        self.config = config
        self.console_style = style_of(console_style)
        self.missing = found.missing
        for text in dict.fromkeys(found.missing.values()):
            warnings.warn(f"TrainingMonitor: {text}", RuntimeWarning, stacklevel=2)
        self.is_monitoring = False
        self.training_start_time: float | None = None
        self.current_epoch = self.current_step = 0
        self.dashboard: str | None = None
        self.gradients: Any = None
        self.alert_system: AlertSystem | None = None
        if found.alerts:
            self.alert_system = AlertSystem(found.thresholds)
            self.alert_system.callbacks.append(self._on_alert)
            for rule in found.rules:
                self.alert_system.add_alert_rule(**rule)
        self._system: SystemMonitor | None = None
        if found.system:
            self.system_monitor = SystemMonitor()
        self.database: _database.MetricsDatabase | None = None
        self.report_path = ""
        self._session = _report.Session()
        self._ranks = Ranks("all")
        self._allocator: Any = None
        self._loader: Any = None
        self._waited = 0.0
        self._model: Any = None
        self._pending: deque[_Pending] = deque()
        self._lock = threading.RLock()
        self._clock: float | None = None
        self._cap = Cap(found.max_events)
        self._tensorboard: Any = None
        self._log: logging.Logger | None = None
        self._began = self._owns_steps = self._writes = False
        self._pid = os.getpid()

    # ---- start and stop ---------------------------------------------------------------------

    @property
    def system_monitor(self) -> SystemMonitor | None:
        return self._system

    @system_monitor.setter
    def system_monitor(self, monitor: SystemMonitor | None) -> None:
        """Another one goes on where the one before stops."""
        before, self._system = self._system, monitor
        if before is not None:
            before.stop_monitoring()
            if self._on_system in before.callbacks:
                before.callbacks.remove(self._on_system)
        if monitor is not None:
            monitor.callbacks.append(self._on_system)
            if self.is_monitoring and self._looks_at_machine():
                monitor.start_monitoring()

    @staticmethod
    def _looks_at_machine() -> bool:
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def start_monitoring(self) -> None:
        """Open the run and begin; a second call does nothing."""
        if self.is_monitoring:
            return
        self.is_monitoring, self._pid = True, os.getpid()
        self._session, self._pending = _report.Session(), deque()
        self.training_start_time = self._session.began
        self.current_step = 0
        try:
            self._start()
        except Exception as error:
            self._warn(f"start_monitoring(): {type(error).__name__}: {error}")
        self._clock = None
        atexit.register(self.stop_monitoring)

    @staticmethod
    def _warn(text: str) -> None:
        tell_once("monitor", text)
        warnings.warn(f"TrainingMonitor: {text}", RuntimeWarning, stacklevel=3)

    def _start(self) -> None:
        found = self._settings
        rank, world = (0, 1) if found.alone else rank_and_world()
        mode = "all" if found.alone else found.plan.ranks
        self._ranks = Ranks(mode)
        self._writes = rank == 0
        if not self._records:
            return
        current = _run.current()
        self._began = current is None or not current.recording
        if self._began:
            run = _run.init(settings=found.run, config=found.config)
            if run.error:
                warnings.warn(f"TrainingMonitor: nothing is recorded: {run.error}",
                              RuntimeWarning, stacklevel=4)  # fmt: skip
        _events.event("monitoring", "monitoring has begun", save_dir=found.save_dir, world=world)
        if self._system is not None and self._looks_at_machine():
            self._system.start_monitoring()
        if self._writes:
            self._open_all()
        self._owns_steps = _core.step_now() is None
        if self._owns_steps:
            _core.step_begin(0)

    def _open_all(self) -> None:
        """What one process does for all: dashboard, database, log, TensorBoard's files."""
        found = self._settings
        if found.dashboard:
            self._serve()
        if found.files:
            self.database = _database.MetricsDatabase(
                os.path.join(found.save_dir, "metrics.db"), found.flush_interval
            )
            self._open_log()
        if found.tensorboard_dir and found.performance:
            nemo = importlib.import_module("lapse.compat.nemo._tensorboard")
            self._tensorboard = nemo.TensorBoardMonitor(found.tensorboard_dir)

    def _serve(self) -> None:
        found, say = self._settings, None if self.console_style == "none" else print
        where = found.dashboard_host, found.dashboard_port
        self.dashboard = _dashboard.told(*where, say, self._warn, found.dashboard_options)

    @property
    def _records(self) -> bool:
        return self._ranks.records

    @property
    def _takes_part(self) -> bool:
        """Also without recording, if the figures go to rank 0."""
        return self._records or self._ranks.mode == "aggregate"

    def _open_log(self) -> None:
        """training_monitor.log: 100 MB, five older ones."""
        try:
            os.makedirs(self._settings.save_dir, exist_ok=True)
            path = os.path.join(self._settings.save_dir, "training_monitor.log")
            handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES,
                                          encoding="utf-8", delay=True)  # fmt: skip
        except OSError as error:
            tell_once("monitor", f"training_monitor.log: {error.strerror}")
            return
        handler.setFormatter(
            logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s")
        )
        self._log = logging.Logger("lapse.monitor", logging.INFO)
        self._log.addHandler(handler)
        self._log.info("monitoring started")

    def stop_monitoring(self) -> None:
        """Take what is on its way, write the files and the report, and end a run that
        start_monitoring() began. A second call does nothing."""
        if not self.is_monitoring or self._pid != os.getpid():
            return
        try:
            if self._takes_part:
                self._take_all()
            if self._system is not None:
                self._system.stop_monitoring()
            self._ranks.close()
            if self._writes:
                self._write_all()
        except Exception as error:
            self._warn(f"stop_monitoring(): {type(error).__name__}: {error}")
        self.is_monitoring = False
        atexit.unregister(self.stop_monitoring)
        _events.event("monitoring", "monitoring has ended")
        self._close_files()
        if self._began:
            self._began = False
            _run.finish()

    def _take_all(self) -> None:
        if "lapse.torch" in sys.modules:
            sys.modules["lapse.torch"].flush(wait=True)
        with self._lock:
            while self._pending:
                self._release(self._pending.popleft())
            self._cap.flush()

    def _write_all(self) -> None:
        """Each for itself: a full disk for one is no reason to leave out the others."""
        for what in (self.save_metrics, self._write_report):
            try:
                what()
            except OSError as error:
                tell_once("monitor", f"{error.filename}: {error.strerror}")

    def _close_files(self) -> None:
        tensorboard, self._tensorboard = self._tensorboard, None
        if tensorboard is not None:
            tensorboard.close()
        database, self.database = self.database, None
        if database is not None:
            database.close()
        log, self._log = self._log, None
        if log is not None:
            log.info("monitoring stopped")
            for handler in log.handlers:
                handler.close()

    def __enter__(self) -> TrainingMonitor:
        self.start_monitoring()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_monitoring()

    # ---- what the loop calls ----------------------------------------------------------------

    def watch_loader(self, loader: Any) -> Any:
        """lapse.torch.watch_loader(loader): data_load_time of each step is then what the
        loop waited for it."""
        self._loader = importlib.import_module("lapse.torch").watch_loader(loader)
        self._waited = self._loader.waited
        return self._loader

    def _is_on(self, what: str) -> bool:
        if not self.is_monitoring:
            tell_once("monitor", f"{what}() before start_monitoring(): not logged")
        return self.is_monitoring

    @_hook
    def log_training_step(
        self,
        model: Any,
        optimizer: Any,
        loss: Any,
        accuracy: Any = None,
        learning_rate: Any = None,
        custom_metrics: Mapping[str, Any] | None = None,
        batch_data: Any = None,
    ) -> None:
        """The end of a step: after optimizer.step(), before the gradients are cleared.

        loss, accuracy and custom metrics may be tensors of one element, on a device too:
        these arrive later, with this step. learning_rate: None: that of the optimizer's
        first group. Custom metrics with the name of a figure ("data_load_time") are that
        figure; `batch_size` (else the length of batch_data) is the samples of the step."""
        if not self._is_on("log_training_step"):
            return
        step, self.current_step = self.current_step, self.current_step + 1
        if not self._takes_part:
            return
        now = time.perf_counter()
        metrics = TrainingMetrics(self.current_epoch, step, step)
        if self._clock is not None:
            metrics.batch_time = now - self._clock
        if learning_rate is None and optimizer is not None:
            learning_rate = optimizer.param_groups[0]["lr"]
        self._memory(metrics)
        self._waits(metrics)
        norm = self._measure_gradients(model)
        custom = dict(custom_metrics or {})
        number = step if self._owns_steps else _core.step_now()
        pending = _Pending(metrics, step if number is None else number, norm)
        self._submit(pending, {"loss": loss, "accuracy": accuracy,
                               "learning_rate": learning_rate, **custom})  # fmt: skip
        if self._owns_steps:
            _core.step_end(samples_of(custom, batch_data))
            _core.step_begin(step + 1)
        self._clock = time.perf_counter()

    @_hook
    def log_validation_step(
        self, loss: Any, accuracy: Any = None, custom_metrics: Mapping[str, Any] | None = None
    ) -> None:
        """A validation, recorded as val/loss, val/accuracy and so on. What passed since the
        last training step belongs to none."""
        if not self._is_on("log_validation_step") or not self._takes_part:
            return
        metrics = TrainingMetrics(self.current_epoch, self.current_step, self.current_step, "val")
        number = self.current_step if self._owns_steps else _core.step_now()
        pending = _Pending(metrics, self.current_step if number is None else number, None)
        self._submit(pending, {"loss": loss, "accuracy": accuracy, **dict(custom_metrics or {})})
        self._not_training()

    def _not_training(self) -> None:
        if self._owns_steps:
            _core.step_begin(self.current_step)
        self._clock = time.perf_counter()

    def log_model_inference_benchmark(
        self, model: Any, device: Any, input_data: Any, baseline: Any = None
    ) -> ModelPerformanceMetrics | None:
        """lapse.torch.benchmark(): 100 runs after 10 to warm up, in evaluation mode, which is
        afterwards as it was. Inputs go to the device first. baseline: the model that this one
        was made of, say by quantisation: it is measured too, and sizes, times and outputs are
        compared. None if it failed, which is said."""
        if not self._is_on("log_model_inference_benchmark") or not self._records:
            return None
        try:
            found = inference(model, to_device(input_data, device), baseline)
        except Exception as error:
            tell_once("monitor", f"the benchmark failed: {type(error).__name__}: {error}")
            return None
        finally:
            self._not_training()
        self._session.benchmarks += 1
        if self.database is not None:
            self.database.add("model_performance_metrics", found.to_dict())
        if self._log is not None:
            self._log.info("inference: %.1f samples/s", found.samples_per_second)
        return found

    # ---- one step ---------------------------------------------------------------------------

    def _measure_gradients(self, model: Any) -> Any:
        """Where its norm will be (Gradients.newest); None: it is not measured."""
        if not (self._settings.gradients and hasattr(model, "named_parameters")):
            return None
        if self.gradients is None or model is not self._model:
            self._model = model
            self.gradients = gradients_of(model, self._settings.plan)
        if self.gradients is None:
            return None
        self.gradients.step()
        return self.gradients.newest

    def _memory(self, metrics: TrainingMetrics) -> None:
        latest = self._system.get_latest_metrics() if self._system is not None else None
        if latest is not None:
            metrics.cpu_memory_mb = latest.process_memory_mb
            metrics.gpu_memory_utilization = latest.gpu_memory_utilization
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return
        if self._allocator is None:
            self._allocator = importlib.import_module("lapse.torch").Allocator(every=1)
        self._allocator.step()
        held = [one["allocated"] for one in self._allocator.last.values() if "allocated" in one]
        if held:
            metrics.gpu_memory_mb = sum(held) / MIB

    def _waits(self, metrics: TrainingMetrics) -> None:
        """By the loader's own clock."""
        if self._loader is None:
            return
        before, self._waited = self._waited, self._loader.waited
        metrics.data_load_time = self._waited - before

    def _submit(self, pending: _Pending, values: dict[str, Any]) -> None:
        torch = sys.modules.get("torch")
        late: dict[Any, list[tuple[str, Any]]] = {}
        for name, value in values.items():
            if value is None or not _callback.is_number(value):
                continue
            if torch is not None and isinstance(value, torch.Tensor):
                late.setdefault(value.device, []).append((name, value.detach()))
            else:
                take(pending.metrics, name, float(value))
        pending.waiting = len(late)
        with self._lock:
            self._pending.append(pending)
        for pairs in late.values():
            names = [name for name, _ in pairs]
            importlib.import_module("lapse.torch").later(
                [tensor for _, tensor in pairs], partial(self._arrived, pending, names),
                pending.step, pending.time_ns,
            )  # fmt: skip
        self._drain()

    def _arrived(
        self, pending: _Pending, names: list[str], values: list[float], *of: int | None
    ) -> None:
        """`of`: step and time, which are the ones of pending."""
        for name, value in zip(names, values):
            take(pending.metrics, name, value)
        pending.waiting -= 1

    def _drain(self) -> None:
        """What is complete, in order."""
        with self._lock:
            while self._pending and (
                self._is_ready(self._pending[0]) or len(self._pending) > PENDING_MAX
            ):
                self._release(self._pending.popleft())

    def _is_ready(self, pending: _Pending) -> bool:
        if pending.waiting > 0:
            return False
        late = pending.norm is not None and not pending.norm.is_over
        return not late or len(self._pending) > GRADIENTS_MAX

    def _release(self, pending: _Pending) -> None:
        metrics = pending.metrics
        norm = pending.norm.total if pending.norm is not None else None
        if norm is not None and not known(metrics.grad_norm):
            metrics.grad_norm = norm
        self._session.add_training(metrics)
        frame = frame_of(metrics)
        if self._tensorboard is not None and metrics.phase == "train":
            frame.update(tags_of(metrics, self._session.system))
        if self._records and self._cap.takes(frame, pending.step, pending.time_ns):
            _core.log(frame, pending.step, pending.time_ns)
        if self._ranks.mode == "aggregate":
            self._ranks.log({name: value for name, value in frame.items() if "/" not in name},
                            pending.step)  # fmt: skip
        if self.database is not None:
            self.database.add("training_metrics", row_of(metrics))
        if self.alert_system is not None:
            self.alert_system.evaluate_rules(training_metrics=metrics)

    def _on_system(self, metrics: SystemMetrics) -> None:
        self._session.add_system(metrics)
        if self.database is not None:
            self.database.add("system_metrics", metrics.to_dict())
        if self.alert_system is not None:
            self.alert_system.evaluate_rules(system_metrics=metrics)

    def _on_alert(self, alert: dict[str, Any]) -> None:
        if self.database is not None:
            self.database.add("alerts", {**alert, "acknowledged": 0})
        if self._log is not None:
            self._log.warning("Alert [%s] %s: %s", alert["severity"].upper(), alert["type"],
                              alert["message"])  # fmt: skip
        if self.console_style != "none" and rank_and_world()[0] == 0:
            print(f"Alert [{alert['severity'].upper()}] {alert['type']}: {alert['message']}",
                  flush=True)  # fmt: skip

    # ---- what comes out ---------------------------------------------------------------------

    def get_monitoring_status(self) -> dict[str, Any]:
        """is_monitoring, start_time, current_epoch, current_step, and what each part has seen
        so far."""
        self._drain()
        session = self._session
        components: dict[str, Any] = {}
        if self._settings.files:
            database = self.database
            components["metrics_collector"] = {
                "collected_training": session.steps + session.validations,
                "collected_system": session.readings,
                "collected_model_performance": session.benchmarks,
                "flushed_batches": database.flushes if database else 0,
                "lost": database.lost if database else 0,
            }
        if self._settings.performance:
            components["performance_monitor"] = {
                "monitoring_duration": time.time() - session.began,
                "training_steps": session.steps,
                "system_samples": session.readings,
                "model_performance_tests": session.benchmarks,
                "latest_training_metrics": session.training.to_dict() if session.training else None,
                "latest_system_metrics": session.system.to_dict() if session.system else None,
                "gradient_stats": self.gradients.stats() if self.gradients else {},
                "performance_recommendations": [one.to_dict() for one in recommend(session.seen)],
            }
        if self.alert_system is not None:
            components["alert_system"] = self.alert_system.summary()
        return {
            "is_monitoring": self.is_monitoring,
            "start_time": self.training_start_time,
            "current_epoch": self.current_epoch,
            "current_step": self.current_step,
            "run": _core.run_id(),
            "missing": dict(self.missing),
            "components": components,
        }

    def save_metrics(self) -> list[str]:
        """training_metrics_TIME.json, system_metrics_TIME.json, model_performance_TIME.json
        of this session in save_dir, in the order of time; their paths. stop_monitoring()
        does it. OSError."""
        return self._export(self._settings.save_dir, f"_{int(time.time())}", {
            "training_metrics": "training_metrics", "system_metrics": "system_metrics",
            "model_performance": "model_performance_metrics"}, "json", None, None)  # fmt: skip

    def export_data(
        self,
        output_path: str | os.PathLike[str],
        metric_type: str = "all",
        start_time: float | None = None,
        end_time: float | None = None,
        format: str = "json",
    ) -> list[str]:
        """Files of this session in the folder output_path, which is made: all rows, in the
        order of time. metric_type: all, training, system, model_performance or alerts.
        format: json or csv. Their paths. OSError."""
        if metric_type != "all" and metric_type not in _database.TYPES:
            raise ValueError(f"export_data(): metric_type is one of all, "
                             f"{', '.join(_database.TYPES)}, not {metric_type!r}")  # fmt: skip
        if format not in ("json", "csv"):
            raise ValueError(f"export_data(): format is json or csv, not {format!r}: pages and "
                             "pictures are not in this version")  # fmt: skip
        chosen = _database.TYPES if metric_type == "all" else {
            metric_type: _database.TYPES[metric_type]}  # fmt: skip
        return self._export(os.fspath(output_path), "", {t: t for t in chosen.values()}, format,
                            start_time, end_time)  # fmt: skip

    def _export(
        self, folder: str, ending: str, files: dict[str, str], format: str,
        since: float | None, until: float | None,
    ) -> list[str]:  # fmt: skip
        if self.database is None:
            return []
        self._drain()
        write = _database.write_json if format == "json" else _database.write_csv
        made = []
        for name, table in files.items():
            rows = self.database.rows(table, since, until)
            first = list(itertools.islice(rows, 1))
            if not first and ending:
                continue
            path = _report.free(os.path.join(folder, name + ending), f".{format}")
            write(path, itertools.chain(first, rows))
            made.append(path)
        return made

    def _write_report(self) -> None:
        alerts = self.alert_system.summary() if self.alert_system else {}
        document = self._session.document(self.current_step, alerts)
        if self.console_style != "none":
            print(_report.block(document), flush=True)
        self.report_path = _report.write(self._settings.save_dir, document)
        _events.artifact(self.report_path, "report")
