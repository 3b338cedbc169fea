"""The check of a node before it gets work. It is sent there as code, so it must not import Clew at the top."""


def try_import() -> tuple[str, str]:
    """Return the version of Clew on this machine, and the error if its worker cannot be imported."""
    try:
        import importlib
        import importlib.metadata

        importlib.import_module("clew.ray.worker")
        return importlib.metadata.version("clew"), ""
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
