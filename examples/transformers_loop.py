# SPDX-License-Identifier: Apache-2.0
"""A training with transformers.Trainer under lapse: a tiny language model, made from its
configuration, learns to count. It has lapse's profiling options.

lapse run -- python examples/transformers_loop.py --max_steps 50
python examples/transformers_loop.py --max-steps 50 --enable-profiling --enable-memory-logging
"""

from dataclasses import dataclass

import torch
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

import lapse
import lapse.transformers  # makes report_to="lapse" known


@dataclass
class Options:
    """What a run can be told."""

    max_steps: int = 200
    batch: int = 8
    lr: float = 3e-3
    width: int = 32
    output_dir: str = "transformers_loop"


def sequences(n, length=16, vocabulary=32):
    """Each counts on from a number of its own."""
    rows = (torch.arange(length) + start for start in range(n))
    return [{"input_ids": row % vocabulary, "labels": row % vocabulary} for row in rows]


def main():
    parser = lapse.add_cli_args(HfArgumentParser(Options))
    options, profiling = parser.parse_args_into_dataclasses()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=options.width,
            intermediate_size=2 * options.width,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=32,
        )
    )
    arguments = TrainingArguments(
        options.output_dir,
        max_steps=options.max_steps,
        per_device_train_batch_size=options.batch,
        learning_rate=options.lr,
        logging_steps=5,
        save_strategy="no",
        disable_tqdm=True,
        report_to="lapse",
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=sequences(512),
        callbacks=lapse.callbacks_from_args(profiling),
    )
    print(f"loss {trainer.train().training_loss:.4f}")
    if profiling.enable_profiling:
        folder = profiling.profiler_output_dir
        print(f"lapse trace summary {folder}/*.json.gz   or: tensorboard --logdir={folder}")


if __name__ == "__main__":
    main()
