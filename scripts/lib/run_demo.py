"""A first tuning of this machine, from an empty environment to an answer; what scripts/demo runs."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
from typing import Any

from environment import ROOT, Environment, Stop

PACKAGED = ("tuner", "templates", "db", "pyproject.toml", "README.md")
"""What the installation copies; when it changes, the demo installs again."""

DATABASE = "build/demo.db"
GPU_SIZE, CPU_SIZE = 4096, 512


def main() -> int:
    """Install, look for a device, tune, look up; 0 if there is an answer at the end."""
    options = _options()
    environment = Environment(ROOT / ".venv-demo")
    (ROOT / DATABASE).parent.mkdir(exist_ok=True)

    _say("1. Install gemm-tuner into an environment of its own; the first time this is a download of some minutes")
    environment.install(f".{_driver()}", contents=PACKAGED)

    _say("2. Which OpenCL devices are here")
    _gemm_tuner(environment, "devices")
    device = _best_device(environment)

    size = options.size or (GPU_SIZE if device["silicon"]["kind"] == "gpu" else CPU_SIZE)
    product = [str(size)] * 3
    _say(f"3. Tune the product of two {size} x {size} matrices on {device['silicon']['name']}")
    _gemm_tuner(environment, "tune", *product, "--seconds", str(options.seconds), "--db", DATABASE)

    _say("4. Ask for the best configuration, as a program would")
    _gemm_tuner(environment, "lookup", *product, "--db", DATABASE)

    _say_what_next(environment, product)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Installs gemm-tuner into .venv-demo, tunes one product on this machine and looks it up.",
    )
    parser.add_argument("--seconds", type=int, default=100, help="how long to tune (default: 100)")
    parser.add_argument(
        "--size",
        type=int,
        help=f"rows and columns of all matrices (default: {GPU_SIZE} on a GPU, {CPU_SIZE} elsewhere)",
    )
    return parser.parse_args()


def _driver() -> str:
    """The extra with a CPU driver, where there is one for this machine."""
    return "[intel]" if (sys.platform, platform.machine()) == ("linux", "x86_64") else ""


def _gemm_tuner(environment: Environment, *arguments: str) -> None:
    """Run the command as a user would, shown before it runs."""
    print(f"$ gemm-tuner {shlex.join(arguments)}", flush=True)
    status = environment.run("gemm-tuner", *arguments)
    if status:
        raise Stop(f"gemm-tuner {arguments[0]} ended with status {status}.", status)


def _best_device(environment: Environment) -> dict[str, Any]:
    """The device that commands choose by themselves: the first that works."""
    command = [str(environment.folder / "bin" / "gemm-tuner"), "devices", "--json"]
    listing = subprocess.run(
        command, cwd=ROOT, env=environment.variables(), capture_output=True, text=True, check=False
    )
    devices = json.loads(listing.stdout)["devices"] if listing.returncode == 0 else []
    for device in devices:
        if device["works"]:
            return dict(device)
    raise Stop("No OpenCL device works here: install your device's driver, then run scripts/demo again.")


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _say_what_next(environment: Environment, product: list[str]) -> None:
    asked = " ".join(product)
    command = f"{environment.folder.relative_to(ROOT)}/bin/gemm-tuner"
    _say("What next")
    print(f"Everything found is kept in {ROOT / DATABASE}.")
    print("Tuning again goes on from there and measures nothing twice.")
    print(f"  {command} lookup {asked} --source --db {DATABASE}     the kernel, OpenCL C")
    print(f"  {command} history {asked} --db {DATABASE}             how it became the champion")
    print(f"  {command} tune 1000 64 3000 --seconds 60          another product, kept in your data folder")
    print("docs/getting-started.md goes on from here; docs/families.md shows how to tune a kernel of your own.")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.status)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
