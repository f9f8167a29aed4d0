#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One step of training a classifier with many labels in torch: the loss by softfold's logsumexp, with
its gradient, beside torch's own.

    examples/python/training_step.py
"""

import torch

import softfold.torch

torch.manual_seed(0)
features, labels = torch.randn(32, 64), torch.randint(0, 5000, (32,))
model = torch.nn.Linear(64, 5000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


def loss_of(logits):
    target = logits.gather(-1, labels[:, None])[:, 0]
    return (softfold.torch.logsumexp(logits) - target).mean()


before = loss_of(model(features))
expected = torch.nn.functional.cross_entropy(model(features), labels)
assert torch.isclose(before, expected)

before.backward()
optimizer.step()
print(f"loss {before.item():.4f}, after one step {loss_of(model(features)).item():.4f}")
