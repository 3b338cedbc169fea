"""No circle between the modules of the package; the layers are contracts of import-linter in pyproject.toml."""

from graphlib import CycleError, TopologicalSorter

import pytest
from grimp import build_graph


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count, those for type checkers alone do not."""
    graph = build_graph("clew", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 100
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")
