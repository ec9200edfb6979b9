"""Threads of linear algebra."""

from __future__ import annotations

from gpnode._config import computing


def test_one_thread_for_linear_algebra_while_anyone_asks():
    from threadpoolctl import threadpool_info

    def counts():
        return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

    before = counts()
    with computing():
        with computing():
            pass
        assert counts() == {1}
    assert counts() == before
