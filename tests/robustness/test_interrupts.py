"""An interrupt is noted, and raised where it can be dealt with."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gpnode.inference.running import interrupts

pytestmark = pytest.mark.usefixtures("interruptible")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_raised_where_it_is_asked_for():
    reached = []
    with interrupts.noted():
        interrupt()
        reached.append("after it")
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()  # once
    assert reached


def test_a_second_one_is_raised_at_once():
    with interrupts.noted():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_one_that_nobody_asked_for_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), interrupts.noted(), interrupts.noted():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupts.check()


def interrupted_and_broken():
    with interrupts.noted():
        interrupt()
        raise ZeroDivisionError


def test_after_an_error_nothing_is_left():
    with pytest.raises(ZeroDivisionError):
        interrupted_and_broken()
    interrupts.check()


def test_what_was_ignored_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.noted():
        interrupt()
        interrupt()
        interrupts.check()


def test_other_threads_are_left_alone():
    def work():
        with interrupts.noted():
            interrupts.check()
        done.append(True)

    done = []
    with interrupts.noted():
        interrupt()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert done
