"""Makes the virtual environment of the other loaders once, from pinned packages, apart from the project's
environments.
"""

import hashlib
import json
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".venv-peers"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
# PyTorch without CUDA is a tenth of the download size, but only PyTorch's own package index has it. If that index
# cannot be reached, install the CUDA build.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def python():
    """Returns the Python interpreter of this environment. Installs the packages if their list has changed since the
    last call.
    """
    interpreter = FOLDER / "bin" / "python"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = FOLDER / "requirements.sha256"
    if interpreter.exists() and stamp.exists() and stamp.read_text() == wanted:
        return interpreter
    say(f"installing the peers into {FOLDER}")
    if not interpreter.exists():
        venv.create(FOLDER, with_pip=True)
    failed = install(interpreter, ["-r", REQUIREMENTS])
    if failed:
        # Install the other packages even if one has no wheel for this machine.
        failed = [line for line in requirements() if install(interpreter, [line, "-c", REQUIREMENTS])]
        say(f"not installed, to be tried again next time: {', '.join(failed)}")
    if not failed:
        stamp.write_text(wanted)
    return interpreter


def requirements():
    lines = (line.split("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    return [line for line in lines if line]


def install(interpreter, what):
    command = [interpreter, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
    command += ["--extra-index-url", CPU_INDEX] if reachable(CPU_INDEX) else []
    return subprocess.run([str(arg) for arg in [*command, *what]], stdout=sys.stderr).returncode


def reachable(address):
    """Returns True if the server answers within a few seconds. Checking once is faster than letting pip retry for each
    package.
    """
    try:
        with urllib.request.urlopen(f"{address}/", timeout=10):
            return True
    except OSError:
        return False


def missing(interpreter, modules):
    """Returns the modules that the interpreter cannot import, with the reasons. Imports each module in its own process,
    because some of them conflict.
    """
    found = {}
    for module in sorted(modules):
        done = subprocess.run([interpreter, "-c", f"import {module}"], capture_output=True, text=True)
        if done.returncode:
            found[module] = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return found


def versions(interpreter):
    names = [line.split("==")[0] for line in requirements()]
    code = "import importlib.metadata as m, json, sys\nout = {}\nfor n in sys.argv[1:]:\n  try: out[n] = m.version(n)\n  except m.PackageNotFoundError: pass\nprint(json.dumps(out))"
    return json.loads(subprocess.run([str(interpreter), "-c", code, *names], capture_output=True, text=True, check=True).stdout)


def say(words):
    print(f"loader: {words}", file=sys.stderr, flush=True)
