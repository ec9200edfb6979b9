"""The test suite that tools for PEtab share."""

from __future__ import annotations

import pytest

from gpnode.errors import FileFormatError
from support.petab import differences, shared_petab

QUICK = ["v1.0.0/0014", "v1.0.0/0015", "v2.0.0/0003", "v2.0.0/0025"]
"""Cases with the same equations and different tables, the last one with priors."""
REFUSED = {"v2.0.0/0016": "the state triggers it", "v2.0.0/0023": "events on the way there"}
"""Cases that cannot be honoured, and why."""


@pytest.mark.parametrize("case", QUICK)
def test_a_case_has_its_solution(case):
    apart = differences(shared_petab(f"test-suite/{case}"))
    assert max(apart.values()) < 1.0, apart


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1.0.0", "v2.0.0"])
def test_all_cases_have_their_solutions(version):
    for folder in sorted(shared_petab(f"test-suite/{version}").iterdir()):
        why = REFUSED.get(f"{version}/{folder.name}")
        if why is not None:
            with pytest.raises(FileFormatError, match=why):
                differences(folder)
            continue
        apart = differences(folder)
        assert max(apart.values()) < 1.0, (folder.name, apart)
