# SPDX-License-Identifier: Apache-2.0
"""A training loop in PyTorch under lapse: a small network on made-up data, with
workers that load it. The workers' records belong to the same run.

lapse run -- python examples/torch_loop.py [--workers 2] [--steps 200]
"""

import argparse

import torch
from torch import nn

import lapse


class Waves(torch.utils.data.Dataset):
    """Points of a wave; making one is a span of the worker that does it."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    @lapse.span("make item")
    def __getitem__(self, i):
        x = torch.tensor([i / self.samples * 6.28])
        return x, torch.sin(x)


def train(args, device):
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = torch.utils.data.DataLoader(
        Waves(args.steps * args.batch), batch_size=args.batch, num_workers=args.workers,
        shuffle=True,
    )  # fmt: skip
    batches = iter(loader)
    for _ in range(args.steps):
        with lapse.step(samples=args.batch):
            with lapse.span("data"):
                x, y = (t.to(device) for t in next(batches))
            with lapse.span("forward"):
                loss = nn.functional.mse_loss(model(x), y)
            with lapse.span("backward"):
                optimizer.zero_grad()
                loss.backward()
            with lapse.span("optimizer"):
                optimizer.step()
            # A tensor is read by its __float__, which waits for the GPU: .item() too.
            lapse.log({"loss": loss.detach(), "optim": {"lr": optimizer.param_groups[0]["lr"]}})
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with lapse.init(project="examples", config={**vars(args), "device": device}) as run:
        loss = train(args, device)
        print(f"loss {loss:.4f}; run {run.id or run.error}")


if __name__ == "__main__":
    main()
