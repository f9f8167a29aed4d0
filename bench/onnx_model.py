# SPDX-License-Identifier: Apache-2.0
"""The smallest ONNX models of softmax and top-k, written as protobuf bytes.

Only what the models need of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, so that the
package onnx need not be installed.
"""

TYPES = {"f32": 1, "f16": 10, "f64": 11}  # TensorProto.DataType
INT64 = 7
OPSET = 18  # the first whose ReduceLogSumExp has its axes as an input, as OpenVINO wants them


def _varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _field(number, value):
    """One field: an integer, or bytes (a string, a message)."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name, value):
    """AttributeProto of an integer."""
    return _field(1, name) + _field(3, value) + _field(20, 2)


def _node(operator, inputs, outputs, **attributes):
    return b"".join([*(_field(1, name) for name in inputs), *(_field(2, name) for name in outputs),
                     _field(4, operator),
                     *(_field(5, _attribute(name, v)) for name, v in attributes.items())])


def _value(name, kind, shape):
    dimensions = b"".join(_field(1, _field(1, size)) for size in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, dimensions)))


def _integer(name, value):
    """TensorProto of one int64."""
    return _field(1, 1) + _field(2, INT64) + _field(7, _varint(value)) + _field(8, name)


def build(operation, dtype, rows, cols, k):
    """The bytes of a model with the input x [rows, cols]; the operation is along the rows."""
    kind, nodes, constants = TYPES[dtype], [], []
    if operation in ("softmax", "log_softmax"):
        name = "Softmax" if operation == "softmax" else "LogSoftmax"
        nodes.append(_node(name, ["x"], ["y"], axis=1))
        outputs = [_value("y", kind, [rows, cols])]
    elif operation == "logsumexp":
        nodes.append(_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=1))
        constants.append(_integer("axes", 1))
        outputs = [_value("y", kind, [rows, 1])]
    else:
        ranked = "x"
        if operation == "softmax_topk":
            nodes.append(_node("Softmax", ["x"], ["p"], axis=1))
            ranked = "p"
        nodes.append(_node("TopK", [ranked, "k"], ["values", "indices"], axis=1))
        constants.append(_integer("k", k))
        outputs = [_value("values", kind, [rows, k]), _value("indices", INT64, [rows, k])]
    graph = b"".join([*(_field(1, n) for n in nodes), _field(2, operation),
                      *(_field(5, c) for c in constants), _field(11, _value("x", kind, [rows, cols])),
                      *(_field(12, o) for o in outputs)])
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, OPSET))
