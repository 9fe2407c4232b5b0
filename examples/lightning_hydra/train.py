# SPDX-License-Identifier: Apache-2.0
"""A training with Lightning and Hydra under lapse: a small network learns a wave.
Everything about lapse is in conf/train.yaml and on the command line.

lapse run -- python examples/lightning_hydra/train.py
python examples/lightning_hydra/train.py 'callbacks=[throughput_monitor,profiler]' \
    callbacks.profiler.enabled=true callbacks.profiler.profile_epochs=[1]
"""

import hydra
import torch
from omegaconf import OmegaConf
from torch import nn

import lapse
import lapse.hydra

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl


class Wave(pl.LightningModule):
    """sin(x) by a network with one hidden layer."""

    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.layers = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def loader(data):
    x = torch.linspace(0, 6.28, data.samples).unsqueeze(1)
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, torch.sin(x)),
        batch_size=data.batch_size,
        num_workers=data.workers,
        shuffle=True,
    )


@hydra.main(version_base=None, config_path="conf", config_name="train")
def main(cfg):
    pl.seed_everything(0)
    lapse.init(project=cfg.project_name, name=cfg.exp_name, config=OmegaConf.to_container(cfg))
    trainer = pl.Trainer(
        max_epochs=cfg.max_epochs,
        callbacks=lapse.hydra.callbacks(cfg),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(Wave(cfg.lr), loader(cfg.data))
    print(f"loss {trainer.callback_metrics['loss'].item():.4f}")
    lapse.finish()


if __name__ == "__main__":
    main()
