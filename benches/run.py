"""Runs all benches. Each bench writes a file to benches/runs, and the tables are printed as Markdown for the README.

    .venv/bin/python benches/run.py              all benches: some minutes
    .venv/bin/python benches/pack_keep.py -h     the options of one bench
"""

import sys

import memory
import pack_cubes
import pack_jpeg
import pack_keep
import stream

TITLES = {
    pack_keep: "Packing JPEGs against copying them",
    pack_jpeg: "Tiling and re-encoding JPEGs against libjpeg-turbo alone",
    stream: "Streaming and verifying against a plain read",
    pack_cubes: "Packing cubes against Blosc2 alone",
    memory: "Peak memory of packing cubes",
}


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return
    for bench, title in TITLES.items():
        print(f"\n### {title}\n")
        result = bench.main()
        machine = result["machine"]
        commit = f"commit {result['commit']}, " if "commit" in result else ""
        print(
            f"\n{result['date']}, {commit}{machine['cpu']}, {machine['cores']} cores; "
            f"{result['data']['source']}; medians of {result['rounds']}.",
            flush=True,
        )


if __name__ == "__main__":
    main()
