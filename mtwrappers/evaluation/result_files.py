"""Files of results: JSON with a line for each episode, of one result or of several."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from mtwrappers.common.errors import printable
from mtwrappers.state.files import load_json, write_atomically

FORMAT = "mtwrappers.EvaluationResult/1"
# The end of the message about a file that cannot be read.
_EXPECTED_FILE = "expected a file of EvaluationResult.save"
# The largest size of a file, in bytes.
MAX_SIZE = 2**26


def format_results(results: Sequence[Mapping[str, Any]]) -> str:
    """Several results, as `EvaluationResult.to_dict` returns them, as the text of a file."""
    texts = ",\n".join(map(format_result, results))
    return f"[{texts}]"


def format_result(fields: Mapping[str, Any]) -> str:
    """A result, as `EvaluationResult.to_dict` returns it, as the text of a file."""
    episodes = ",\n    ".join(map(json.dumps, fields["episodes"]))
    other_fields = {name: value for name, value in fields.items() if name != "episodes"}
    head = json.dumps(other_fields, indent=2).removesuffix("\n}")
    return f'{head},\n  "episodes": [\n    {episodes}\n  ]\n}}'


def write_text(path: str | PathLike[str], text: str) -> None:
    """Writes the text of a file; if that fails, an existing file is unchanged.

    Raises:
        OSError: If the file cannot be written, or exists and is not a regular file.
        ValueError: If its name ends in ``.npz``, or it would have more than `MAX_SIZE` bytes.
    """
    if str(path).endswith(".npz"):
        raise ValueError(
            f"a result is saved as JSON, such as result.json, got {path}: evidence= writes that"
        )
    data = f"{text}\n".encode()
    if len(data) > MAX_SIZE:
        raise ValueError(
            f"the results take {len(data):,} bytes, more than the {MAX_SIZE:,} that a file may "
            "have and can be read with: save them in several files"
        )
    write_atomically(path, data)


def read_results(path: str | PathLike[str]) -> list[Any]:
    """The results in a file as untrusted JSON values.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not JSON, or has more than `MAX_SIZE` bytes.
    """
    if os.path.isdir(path):
        hint = f"{_EXPECTED_FILE}, such as its results.json; got a folder"
        raise IsADirectoryError(errno.EISDIR, hint, os.fspath(path))
    if str(path).endswith(".npz"):
        raise ValueError(
            printable(
                f"expected an evaluation in JSON, got {path}, which is for evidence, the actions "
                "of a result: pass the file of EvaluationResult.save"
            )
        )
    try:
        data = load_json(path, MAX_SIZE)
    except FileNotFoundError as error:
        text = f"{error.strerror}; {_EXPECTED_FILE}"
        raise FileNotFoundError(error.errno, text, error.filename) from None
    except ValueError as error:
        reason = printable(f"{path} is not one: {error}")
        raise ValueError(f"expected an evaluation in JSON, {reason}") from None
    return data if isinstance(data, list) else [data]
