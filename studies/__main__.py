"""`python -m studies NAME …` runs a study; without a name, the list of them."""

import ast
import runpy
import sys
from pathlib import Path


def list_studies() -> dict[str, str]:
    """The first line of each study's docstring, by name."""
    found = {}
    for path in sorted(Path(__file__).parent.iterdir()):
        source = path / "__main__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.exists() or path.name.startswith("__"):
            continue
        tree = ast.parse(source.read_text("utf-8"))
        if any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main() -> None:
    """Runs the study that the first argument names, with the other arguments."""
    studies = list_studies()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in studies:
        print("\n".join(f"{study:14} {summary}" for study, summary in studies.items()))
        sys.exit(f"there is no study {name!r}" if name else 0)
    del sys.argv[1]
    runpy.run_module(f"studies.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
