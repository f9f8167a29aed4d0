# SPDX-License-Identifier: Apache-2.0
"""A contender of peers.py in a process of its own, which is stopped whenever nothing is asked of it.

Libraries let their threads spin for a while after a call. In the next contender's turn those would
take its processors; the threads of a stopped process take none.

The calls come from a module, as peers_calls.py is: `load(name)` imports what a contender needs and
gives its version, `prepared(name, case, threads, memory)` a call of the case and what reads its
answer, or None where the contender does not do the case.
"""

import contextlib
import ctypes
import importlib
import mmap
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import time

SECONDS_TO_ANSWER = 900  # some compile before their first answer
SECONDS_TO_END = 10  # of a process that has closed its pipe


class Failed(Exception):
    """The contender could not do it: the text says why."""


class Gone(Failed):
    """Its process has ended, or no longer answers."""


class Absent(Failed):
    """It cannot be imported."""


class Worker:
    """The process, from outside. It runs within __init__ and ask(), and at no other time."""

    def __init__(self, module, name, memory):
        """`memory`: a file of elements, which prepared() gets as far as `length` of its request says."""
        self._pipe, theirs = multiprocessing.Pipe()
        flags = ["-B"] if sys.dont_write_bytecode else []
        given = [module, name, theirs.fileno(), memory, os.getpid()]
        # A session of its own: an interrupt from the keyboard is for the parent, which ends this one.
        self._process = subprocess.Popen([sys.executable, *flags, __file__, *map(str, given)],
                                         pass_fds=(theirs.fileno(), memory),
                                         stdin=subprocess.DEVNULL, start_new_session=True)
        theirs.close()
        try:
            self.version = self._answer()
        except Failed:
            self.end()
            raise

    @property
    def pid(self):
        return self._process.pid

    def ask(self, request, **arguments):
        """What the method of `Served` returns. Raises Failed if it raised, Gone if the process ended or
        has not answered in SECONDS_TO_ANSWER: it is good for nothing else than end()."""
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):  # _answer() finds that out, too
            self._pipe.send((request, arguments))
        return self._answer()

    def end(self):
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _answer(self):
        if not self._pipe.poll(SECONDS_TO_ANSWER):
            raise Gone(f"no answer in {SECONDS_TO_ANSWER} s")
        try:
            error, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise Gone(self._how_it_ended()) from None
        self._stop()
        if error:
            raise {"Absent": Absent}.get(error, Failed)(value)
        return value

    def _stop(self):
        """Returns when all its threads have stopped."""
        self._process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):  # it ended: the next ask() says so
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _how_it_ended(self):
        try:
            code = self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.end()
            return "its process closed its pipe"
        return (f"its process ended by {signal.Signals(-code).name}" if code < 0
                else f"its process ended with {code}")


# ---- in the process ----


class Served:
    """What can be asked."""

    def __init__(self, calls, name, memory):
        self._calls, self._name, self._memory = calls, name, memory
        self._call = None

    def prepare(self, case, threads, length):
        """Seconds of a call, and its answer; None if the contender does not do the case."""
        self.drop()
        memory = mmap.mmap(self._memory, length) if length else b""
        prepared = self._calls.prepared(self._name, case, threads, memory)
        if prepared is None:
            return None
        call, answer = prepared
        found = answer(call())
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        self._call = call
        return seconds, found

    def time(self, count):
        """Seconds of the wall clock and of processors that `count` calls take, after an untimed one."""
        call = self._call
        call()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            call()
        return time.perf_counter() - wall, time.process_time() - cpu

    def drop(self):
        """Frees what prepare() made."""
        self._call = None


def end_with(parent):
    """A stopped process would outlive its parent: it does not see that its pipe is closed."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def outcome(function, **arguments):
    """(name of an error or None, its last line or what the function returned)."""
    try:
        return None, function(**arguments)
    except ImportError as error:
        return "Absent", str(error)
    except Exception as error:  # a library's own types: it has no such kernel, say
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return "Failed", lines[-1]


def main():
    module, name, pipe, memory, parent = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    end_with(parent)
    pipe = multiprocessing.connection.Connection(pipe)
    try:
        calls = importlib.import_module(module)
        pipe.send(outcome(calls.load, name=name))
        served = Served(calls, name, memory)
        while True:
            request, arguments = pipe.recv()
            pipe.send(outcome(getattr(served, request), **arguments))
    except EOFError:
        pass


if __name__ == "__main__":
    main()
