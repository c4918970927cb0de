"""Files are written piece by piece, with the bytes that safetensors' own writer makes."""

import json

import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from cual import storage

TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.float32,
    torch.float64,
    torch.int64,
]
SHAPES = [(), (0,), (1,), (3,), (2, 5), (4, 0, 2)]


@given(
    st.dictionaries(
        st.text(max_size=4), st.tuples(st.sampled_from(TYPES), st.sampled_from(SHAPES)), max_size=9
    ),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
)
def test_files_are_those_of_safetensors(tmp_path_factory, kinds, body):
    tensors = {name: (3 * torch.rand(shape)).to(dtype) for name, (dtype, shape) in kinds.items()}
    file = tmp_path_factory.mktemp("storage") / "file"
    storage.write(file, "thing", body, storage.Late({name: lambda t=t: t for name, t in tensors.items()}))
    written = file.read_bytes()
    header = json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")])
    meta = json.loads(header["__metadata__"]["cual"])
    sums = {name: storage.digest_of(tensor) for name, tensor in tensors.items()}
    assert meta == {"kind": "thing", "format": storage.FORMAT, "body": body, "sha256": sums}
    one = {"cual": header["__metadata__"]["cual"]}  # safetensors writes several in any order
    second = f',"sha256":"{header["__metadata__"]["sha256"]}"'.encode()
    length = 8 + int.from_bytes(written[:8], "little")
    assert written.count(second) == 1
    theirs = save(tensors, one)
    end = 8 + int.from_bytes(theirs[:8], "little")
    assert written[8:length].replace(second, b"").rstrip() == theirs[8:end].rstrip()
    assert written[length:] == theirs[end:]
    read_body, read = storage.read(file, "thing")
    assert read_body == body
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_tensors_with_gaps_are_written_as_they_are(tmp_path):
    table = torch.arange(12).reshape(3, 4)
    tensors = {
        "columns": table[:, ::2],
        "turned": table.T,
        "repeated": table[:, :1].expand(3, 4),
        "none": table[:0],
    }
    storage.write(tmp_path / "file", "thing", {}, tensors)
    read = storage.read(tmp_path / "file", "thing")[1]
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
