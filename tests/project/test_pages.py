"""The examples of the documentation print what it says."""

from __future__ import annotations

import pytest
from project.pages import DOCS, PAGES, blocks, run


@pytest.mark.parametrize("name", PAGES)
def test_examples_print_what_the_page_says(name: str) -> None:
    examples = blocks((DOCS / name).read_text())
    assert len(examples) > 3
    for block, printed in zip(examples, run(name, examples), strict=True):
        assert printed == (block.output or ""), block.code
