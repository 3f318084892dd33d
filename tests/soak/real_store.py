"""The commands against a real object store: a release made from it, copied to it and back, and what it refuses.

    AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... AWS_ENDPOINT_URL=http://127.0.0.1:9000 \
        python tests/soak/real_store.py s3://BUCKET/SOME-NEW-NAME

The bucket must be there, as must the package pyarrow. Nothing is removed from it. The last step fails with a store that
checks no signatures, as moto does not unless it is told to.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tallyveil.storage.addresses import addressed
from tallyveil.storage.object_store import put_object

KEY = ("--insecure-test-key", "real store", "--quiet")


def tallyveil(*arguments: object, code: int = 0, **environment: str) -> str:
    """Run a command, which must end with a code; returns what it prints."""
    program = "from tallyveil.cli.main import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == code, (arguments, found.stderr)
    return found.stdout + found.stderr


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a release."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def main() -> None:
    """Go through all steps; the first that fails ends with its reason."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "address", help="address of objects that are not there yet, such as s3://bucket/test-1"
    )
    address = parser.parse_args().address.rstrip("/")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tallyveil("synth", "--blocks", 300, "--out", folder / "in", "--quiet")
        text = (folder / "in" / "release.toml").read_text()
        for path in (folder / "in").glob("*.parquet"):
            with path.open("rb") as stream:
                put_object(addressed(f"{address}/in/{path.name}"), stream, "test")
            text = text.replace(f'"{path.name}"', f'"{address}/in/{path.name}"')
        (folder / "in" / "store.toml").write_text(text)
        tallyveil("run", folder / "in" / "release.toml", "--out", folder / "files", *KEY)
        tallyveil("run", folder / "in" / "store.toml", "--out", folder / "objects", *KEY)
        assert contents(folder / "files") == contents(folder / "objects")
        print("a release made from objects is the one made from files")
        print(tallyveil("copy", folder / "objects", f"{address}/copy", "--quiet", "--json").splitlines()[0])
        print(tallyveil("copy", folder / "objects", f"{address}/copy", "--quiet", "--json").splitlines()[0])
        tallyveil("copy", f"{address}/copy", folder / "back", "--quiet")
        assert contents(folder / "objects") == contents(folder / "back")
        tallyveil("report", folder / "back")
        print("a copy went there, was checked, and came back")
        for wrong, environment in (
            ("/in/none.parquet", {}),
            ("-none/records.parquet", {}),
            ("/in/records.parquet", {"AWS_SECRET_ACCESS_KEY": "wrong"}),
        ):
            (folder / "in" / "wrong.toml").write_text(text.replace("/in/records.parquet", wrong))
            release = ("run", folder / "in" / "wrong.toml", "--out", folder / "refused", *KEY)
            print(
                f"{wrong} {list(environment)}: {tallyveil(*release, code=8, **environment).splitlines()[0]}"
            )
            assert not (folder / "refused").exists()


if __name__ == "__main__":
    main()
