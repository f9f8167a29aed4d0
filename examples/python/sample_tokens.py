#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The next token after each of 16 prompts, drawn from the logits of a small language model that are
in examples/data: at temperature 0.8, from the 50 likeliest tokens, of these the fewest whose
probabilities add up to 0.9.

    examples/python/sample_tokens.py [SEED]
"""

import pathlib
import sys

import numpy as np

import softfold

data = pathlib.Path(__file__).parent.parent / "data"
logits = np.load(data / "logits_prompts.npy")
prompts = (data / "prompts.txt").read_text().splitlines()
vocabulary = (data / "vocab.txt").read_text().splitlines()
generator = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

# One pass over the logits; all that follows is on 50 columns.
probabilities, tokens = softfold.softmax_topk(logits, 50, scale=1 / 0.8, out_dtype="float32")

before = np.cumsum(probabilities, axis=-1) - probabilities
kept = np.where(before < 0.9 * probabilities.sum(-1, keepdims=True), probabilities, 0)
draws = generator.random(len(prompts)) * kept.sum(-1)
chosen = (np.cumsum(kept, axis=-1) <= draws[:, None]).sum(-1)

for prompt, row, probability, choice in zip(prompts, tokens, probabilities, chosen):
    print(f"{prompt}[{vocabulary[row[choice]]}]  {probability[choice]:.3f}")
