#!/usr/bin/env python3
"""Make the kernels' PTX, crates/gpu/ptx/*.ptx, with a pinned NVRTC from PyPI. Needs neither a GPU nor the CUDA toolkit.

    scripts/make_ptx.py            writes the files
    scripts/make_ptx.py --check    exits 0 if the files match the kernels, else names those that do not and exits 1

NVRTC 12.0 writes PTX ISA 8.0. Drivers from version 525 on accept it and compile it for their device.
"""

import argparse
import ctypes
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "crates/gpu/kernels"
PTX = ROOT / "crates/gpu/ptx"
CACHE = ROOT / "target/nvrtc"
PACKAGE = "nvidia-cuda-nvrtc-cu12==12.0.140"
# Fuse multiplications and additions only where the kernel requests it, so that results equal the CPU's bit for bit.
OPTIONS = ["--gpu-architecture=compute_75", "--std=c++17", "--fmad=false", "--restrict"]


def library() -> ctypes.CDLL:
    """Return NVRTC. The first call downloads it."""
    folder = CACHE / PACKAGE.replace("==", "-")
    found = folder / "nvidia/cuda_nvrtc/lib"
    if not (found / "libnvrtc.so.12").exists():
        with tempfile.TemporaryDirectory() as download:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", download, PACKAGE]
            subprocess.run(command, check=True)
            (wheel,) = Path(download).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
    # NVRTC finds this library by its name, so load it first.
    ctypes.CDLL(str(found / "libnvrtc-builtins.so.12.0"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(found / "libnvrtc.so.12"))


def compiled(nvrtc: ctypes.CDLL, source: Path) -> str:
    """Return the PTX of one source file. Includes are passed by name, so that the PTX contains no paths of this
    machine.
    """
    headers = sorted(KERNELS.glob("*.cuh"))
    texts = (ctypes.c_char_p * len(headers))(*(path.read_bytes() for path in headers))
    names = (ctypes.c_char_p * len(headers))(*(path.name.encode() for path in headers))
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), len(headers), texts, names
    )
    if made != 0:
        sys.exit(f"make_ptx: nvrtcCreateProgram: error {made}")
    options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if log.value.strip():
        print(log.value.decode(errors="replace"), file=sys.stderr)
    if failed:
        sys.exit(f"make_ptx: {source.name} does not compile")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    ptx = re.sub(r"\n{2,}", "\n", text.value.decode())
    # NVRTC turns calls of unknown functions into external symbols, which the driver cannot resolve.
    if missing := re.findall(r"\.extern \.func.*?(\w+)\n", ptx):
        sys.exit(f"make_ptx: {source.name} calls an unknown function: {', '.join(missing)}")
    return ptx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    nvrtc = library()
    PTX.mkdir(exist_ok=True)
    sources = sorted(KERNELS.glob("*.cu"))
    wrong = [path.name for path in PTX.glob("*.ptx") if not (KERNELS / path.name).with_suffix(".cu").exists()]
    for source in sources:
        text = compiled(nvrtc, source)
        target = PTX / source.with_suffix(".ptx").name
        if not check:
            target.write_text(text)
            print(f"make_ptx: {target.name}: {len(text)} bytes, {hashlib.sha256(text.encode()).hexdigest()[:16]}")
        elif not target.exists() or target.read_text() != text:
            wrong.append(target.name)
    if wrong:
        print(f"make_ptx: outdated: {', '.join(wrong)}", file=sys.stderr)
        print("hint: run scripts/make_ptx.py and commit its output", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
