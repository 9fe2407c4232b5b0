# SPDX-License-Identifier: Apache-2.0
"""A training loop in numpy under lapse: logistic regression by gradient descent.

python examples/plain_loop.py [--epochs 3] [--seed 0]
lapse run -- python examples/plain_loop.py          (with the machine's figures)
lapse show                                          (what was recorded)
"""

import argparse

import numpy as np

import lapse


def make_data(rng, samples=4096, features=20):
    x = rng.normal(size=(samples, features))
    y = (x @ rng.normal(size=features) + rng.normal(size=samples) > 0).astype(float)
    return x, y


def train(epochs, batch, lr, seed):
    rng = np.random.default_rng(seed)
    with lapse.span("data"):
        x, y = make_data(rng)
    w = np.zeros(x.shape[1])
    grad_norm = lapse.metric("grad/norm", kind="histogram", help="norm of the gradient")
    for n in range(epochs):
        with lapse.epoch(n):
            for at in range(0, len(x), batch):
                xb, yb = x[at : at + batch], y[at : at + batch]
                with lapse.step(samples=len(xb)):
                    with lapse.span("forward"):
                        p = 1 / (1 + np.exp(-(xb @ w)))
                        loss = -np.mean(yb * np.log(p + 1e-9) + (1 - yb) * np.log(1 - p + 1e-9))
                    with lapse.span("backward"):
                        gradient = xb.T @ (p - yb) / len(xb)
                        grad_norm.observe(np.linalg.norm(gradient))
                    with lapse.span("optimizer"):
                        w -= lr * gradient
                    lapse.log({"loss": loss, "optim": {"lr": lr}})
            accuracy = np.mean((x @ w > 0) == (y > 0.5))
            lapse.event("eval", f"accuracy {accuracy:.3f}", accuracy=accuracy, epoch=n)
    return accuracy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with lapse.init(project="examples", config=args) as run:
        accuracy = train(args.epochs, args.batch, args.lr, args.seed)
        print(f"accuracy {accuracy:.3f}; run {run.id or run.error}")


if __name__ == "__main__":
    main()
