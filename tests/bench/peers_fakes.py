# SPDX-License-Identifier: Apache-2.0
"""Contenders for peers.py's test, in the place of libraries: what each of them does is its name."""

import os
import signal
import sys
import threading
import time

ANSWER = [0.25, 0.5, 0.25]
SECONDS = 0.001


def load(name):
    if name == "is_not_there":
        raise ImportError("No module named 'is_not_there'")
    if name == "dies_at_once":
        os.kill(os.getpid(), signal.SIGSEGV)
    return "1.0"


def spin():
    while True:
        pass


def prepared(name, case, threads, memory):
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        if name == "dies_in_its_turn" and calls > 3:
            sys.stdout.flush()
            os._exit(7)
        if name == "refuses_in_its_turn" and calls > 3:
            raise RuntimeError("out of memory")
        with open(case["diary"], "a", encoding="utf-8") as diary:
            diary.write(f"{name}\n")
        time.sleep(SECONDS)
        return ANSWER

    if name == "does_not_do_it":
        return None
    if name == "refuses":
        raise TypeError("there is a reason:\nno kernel for f32")
    if name == "dies_in_one_case" and case["rows"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hangs":
        time.sleep(3600)
    if name == "spins":
        threading.Thread(target=spin, daemon=True).start()
    if name == "errs":
        return call, lambda answer: [answer[0] * 1.1, *answer[1:]]
    if name == "reads":
        return call, lambda _: [byte / 4 for byte in memory[:]]
    return call, lambda answer: answer
