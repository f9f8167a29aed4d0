#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py with contenders that need no library: turns, and what happens to those that fail.

    peers_in_turns.py ROOT
"""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
SETTINGS = {"rounds": 3, "fewest_rounds": 3, "budget": 1.0, "min_time": 0.003}
ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
os.environ["PYTHONPATH"] = str(HERE)  # the workers', for peers_fakes

import peers  # noqa: E402
import worker  # noqa: E402


def stat_of(pid):
    """What /proc says of a process, from its state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()


def processor_seconds(pid):
    """That the process' threads have taken so far."""
    words = stat_of(pid)
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def is_there(pid):
    """Whether the process runs or is stopped, not a zombie."""
    try:
        return stat_of(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class InTurns(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())
        self.diary = pathlib.Path(self.directory, "diary")
        self.memory = os.memfd_create("elements")
        self.addCleanup(os.close, self.memory)
        os.write(self.memory, bytes([1, 2, 1]))

    def case(self, rows=1):
        return {"group": "shapes", "operation": "softmax", "dtype": "f32", "rows": rows, "cols": 3, "k": 0,
                "input": "normal", "threads": 2, "regime": "hot", "loaded": False, "results": [],
                "diary": str(self.diary)}

    def contenders(self, *names):
        return self.enterContext(peers.Contenders(names, "peers_fakes", self.memory))

    def timed(self, contenders, rows=1):
        """(name -> result, what was said)"""
        with contextlib.redirect_stderr(io.StringIO()) as said:
            record = peers.time_case(self.case(rows), 3, contenders, SETTINGS, 2)
        return {r["name"]: r for r in record["results"]}, said.getvalue()

    def test_turns_alternate_and_times_are_of_calls(self):
        found, said = self.timed(self.contenders("softfold", "one", "two"))
        self.assertEqual(said, "")
        self.assertEqual([(n, r["role"]) for n, r in found.items()],
                         [("softfold", "subject"), ("one", "peer"), ("two", "peer")])
        for result in found.values():
            self.assertEqual(result["rounds"], 3)
            self.assertIn(result["calls"], (1, 2))  # of 1 ms and a little in 3 ms
            self.assertGreater(result["seconds"], 0.001)
            self.assertLess(result["own_share"], 0.9)  # it sleeps
        turns = self.diary.read_text(encoding="ascii").split()
        order = [n for i, n in enumerate(turns) if i == 0 or turns[i - 1] != n]
        first = ["softfold", "one", "two"]
        self.assertEqual(order, first + first + ["one", "two", "softfold"] + ["two", "softfold", "one"])

    def test_no_thread_of_another_runs_in_a_turn(self):
        contenders = self.contenders("softfold", "spins")

        def spent():
            return processor_seconds(contenders._workers["spins"].pid)

        self.timed(contenders)
        contenders.ask("spins", "prepare", case=self.case(), threads=2, length=3)
        before = spent()
        time.sleep(0.2)
        self.assertEqual(spent(), before)
        contenders.ask("spins", "time", count=200)  # it does run when it is asked
        self.assertGreater(spent(), before + 0.05)

    def test_what_is_not_there_and_what_dies_at_once(self):
        contenders = self.contenders("softfold", "is_not_there", "dies_at_once", "one")
        self.assertEqual(contenders.names, ["softfold", "one"])
        self.assertIn("not installed: No module named 'is_not_there'", contenders.absent["is_not_there"])
        self.assertEqual(contenders.absent["dies_at_once"], "its process ended by SIGSEGV")
        self.assertEqual(list(self.timed(contenders)[0]), ["softfold", "one"])

    def test_a_peer_that_fails_is_said_and_the_others_are_timed(self):
        for peer, why in (("refuses", "no kernel for f32"),
                          ("refuses_in_its_turn", "out of memory"),
                          ("dies_in_its_turn", "its process ended with 7"),
                          ("dies_in_one_case", "its process ended by SIGKILL"),
                          ("errs", "its answer is another one")):
            with self.subTest(peer):
                found, said = self.timed(self.contenders("softfold", peer, "one"))
                self.assertEqual(list(found), ["softfold", "one"])
                self.assertEqual(said, f"softmax, f32, 1 x 3, 2 threads: without {peer}: {why}\n")

    def test_one_that_does_not_answer_is_ended(self):
        contenders = self.contenders("softfold", "hangs", "one")
        pid, worker.SECONDS_TO_ANSWER = contenders._workers["hangs"].pid, 2
        try:
            found, said = self.timed(contenders)
        finally:
            worker.SECONDS_TO_ANSWER = 900
        self.assertEqual(list(found), ["softfold", "one"])
        self.assertIn("without hangs: no answer in 2 s", said)
        self.assertFalse(is_there(pid))

    def test_what_a_peer_does_not_do_is_not_said(self):
        found, said = self.timed(self.contenders("softfold", "does_not_do_it"))
        self.assertEqual((list(found), said), (["softfold"], ""))

    def test_one_that_died_has_its_turns_in_the_next_case(self):
        contenders = self.contenders("softfold", "dies_in_one_case")
        self.assertEqual(list(self.timed(contenders)[0]), ["softfold"])
        found, said = self.timed(contenders, rows=2)
        self.assertEqual((list(found), said), (["softfold", "dies_in_one_case"], ""))

    def test_without_the_library_a_case_fails(self):
        names, peers.SUBJECT = ("dies_in_its_turn", "one"), "dies_in_its_turn"
        try:
            with self.assertRaisesRegex(worker.Gone, "ended with 7"):
                self.timed(self.contenders(*names))
        finally:
            peers.SUBJECT = "softfold"

    def test_all_read_the_same_memory(self):
        self.assertEqual(list(self.timed(self.contenders("softfold", "reads"))[0]), ["softfold", "reads"])
        os.pwrite(self.memory, bytes([1, 2, 3]), 0)
        found, said = self.timed(self.contenders("softfold", "reads"))
        self.assertEqual(list(found), ["softfold"])
        self.assertIn("its answer is another one", said)

    def test_workers_end_with_their_parent(self):
        program = ("import os, sys, worker\n"
                   "w = worker.Worker('peers_fakes', 'one', os.memfd_create('none'))\n"
                   "os.write(1, str(w.pid).encode())\n"
                   "os._exit(0)")  # without a word to the worker, which is stopped
        # To a file: a pipe would be waited for as long as a worker is there that holds it.
        printed = pathlib.Path(self.directory, "printed")
        with printed.open("wb") as out:
            subprocess.run([sys.executable, "-B", "-c", program], check=True, stdout=out,
                           env={**os.environ, "PYTHONPATH": f"{ROOT / 'bench'}:{HERE}"})
        pid = int(printed.read_bytes())
        until = time.monotonic() + 10
        while is_there(pid) and time.monotonic() < until:
            time.sleep(0.01)
        there = is_there(pid)
        if there:
            os.kill(pid, signal.SIGKILL)
        self.assertFalse(there)


if __name__ == "__main__":
    unittest.main()
