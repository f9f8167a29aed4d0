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

tokens, log_p = softfold.sample(
    logits, temperature=0.8, top_k=50, top_p=0.9, seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0,
    offset=np.arange(len(prompts)),  # rows with the same seed and offset would share their luck
    with_log_probability=True, out_dtype="float32",
)  # fmt: skip

for prompt, token, p in zip(prompts, tokens[:, 0], np.exp(log_p[:, 0])):
    print(f"{prompt}[{vocabulary[token]}]  {p:.3f}")
