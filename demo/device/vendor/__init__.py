"""JavaScript libraries, unchanged, a gzip file each: `python -m demo.device.vendor` fetches them.

NOTICE has their licences.
"""

import gzip
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

FILES = {  # by package of npm, with their SHA-256, unpacked
    "onnxruntime-web@1.30.0": {
        "ort.wasm.bundle.min.mjs":
            "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
        "ort-wasm-simd-threaded.wasm":
            "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    },
    "msgpackr@2.1.4": {
        "index-no-eval.min.js":
            "682aa4201aafcf4fc78f40ea1cbbc23854e9a652b910de43ad5a5458f2b10f4f",
    },
}  # fmt: skip
RUNTIME = "ort-wasm-simd-threaded.wasm"
HERE = Path(__file__).parent


def packed(name: str) -> bytes:
    """A file, as it is sent: with gzip."""
    return (HERE / f"{name}.gz").read_bytes()


def fetch() -> None:
    """Get the packages from npm, check their files, and write these here."""
    for package, files in FILES.items():
        with TemporaryDirectory() as folder:
            asked = "npm", "pack", "--silent", package
            done = subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True)
            with tarfile.open(Path(folder) / done.stdout.strip()) as archive:
                for name, known in files.items():
                    inside = archive.extractfile(f"package/dist/{name}")
                    assert inside is not None
                    data = inside.read()
                    if sha256(data).hexdigest() != known:
                        raise SystemExit(f"{name} of {package} is not the file we know.")
                    (HERE / f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
