"""Where the data folders lie: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path


def data_folder(name: str) -> Path:
    """The folder `templates` or `db`; a wheel carries it as `tuner/_templates` or `tuner/_db`."""
    package = Path(__file__).parent
    carried = package / f"_{name}"
    return carried if carried.is_dir() else package.parent / name


def template_folder() -> Path:
    """The folder of the built-in families."""
    return data_folder("templates")
