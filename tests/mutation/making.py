"""What a mutant is, which there are, and which of them are taken. Running them is another module's business.

Cosmic Ray knows how a line of Python can be spoilt; of its operators those are taken that look like somebody's
mistake. Left alone are types in signatures, which say nothing at run time, decorators, whether `zip` is strict,
which only asserts, and what a part's checks are run with.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutation.rooms import Room

OPERATORS = (
    *(f"ReplaceBinaryOperator_{pair}" for pair in (
        "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul",
        "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr", "RShift_LShift", "LShift_RShift",
    )),
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_Gt", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_Lt", "GtE_Gt", "GtE_Lt",
        "Is_IsNot", "IsNot_Is",
    )),
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert", "ReplaceUnaryOperator_Delete_Not",
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer",
    "ZeroIterationForLoop",
)  # fmt: skip
PLAIN_TYPES = {"bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple"}


Place = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Mutant:
    """A bug in one file: what an operator does to a line, at the `nth` place of such lines where it can."""

    room: str
    file: str
    line: int
    text: str
    operator: str
    nth: int
    occurrence: int

    @property
    def key(self) -> str:
        """What it is known by: neither its place in the file nor what else stands there matters."""
        parts = (self.room, self.file, self.text, self.operator, str(self.nth))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Change:
    """What a mutant does to its file: lines before and after, and the whole text after."""

    before: str
    after: str
    text: str


def change(source: str, mutant: Mutant) -> Change:
    """The file with the bug in."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    text = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    assert text is not None, mutant
    return Change(*_difference(source, text), text)


def mutants(room: Room, cual: Path) -> list[Mutant]:
    """All mutants of a room whose sources lie in a folder `cual`."""
    found: list[Mutant] = []
    for file in room.files(cual):
        source = file.read_text()
        lines = source.splitlines()
        seen: Counter[tuple[str, str]] = Counter()
        for line, operator, occurrence in _mutations(source):
            text = lines[line - 1].strip()
            nth = seen[text, operator]
            seen[text, operator] += 1
            name = file.relative_to(cual).as_posix()
            found.append(Mutant(room.name, name, line, text, operator, nth, occurrence))
    return found


def sample(all_of_them: list[Mutant], n: int | None, seed: int) -> list[Mutant]:
    """`n` mutants at random, in random order: the first few of them are a sample as well; all if `n` is none.

    Each draws a number from its own text: a change of one line changes what is drawn of that line only.
    """

    def lot(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return sorted(all_of_them, key=lot)[:n]


def _mutations(source: str) -> Iterator[tuple[int, str, int]]:
    """Line, operator and occurrence of each mutation of a module's text."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    tree = ast.parse(source)
    untouched = _types(tree) + _asides(tree)
    signs = _signs(tree)
    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places: Iterator[Place] = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(places):
            said = any(first <= start and end <= last for first, last in untouched)
            unpacked = "BinaryOperator" in name and not any(a <= start and end <= b for a, b in signs)
            dotted = (
                name == "ExceptionReplacer" and "." in source.splitlines()[start[0] - 1]
            )  # it knows names only
            if not said and not unpacked and not dotted:
                yield start[0], name, occurrence


def _difference(source: str, text: str) -> tuple[str, str]:
    """The lines that differ, of both, without what is the same around them."""
    old, new = source.splitlines(), text.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    rest = 0
    while rest < min(len(old), len(new)) - first - 1 and old[-1 - rest] == new[-1 - rest]:
        rest += 1
    before, after = ("\n".join(lines[first : len(lines) - rest]).strip() for lines in (old, new))
    return before, after


def _signs(tree: ast.AST) -> list[Place]:
    """Where the signs of sums, products and the like stand: `*` and `**` elsewhere unpack."""
    return [
        ((node.left.end_lineno or 0, node.left.end_col_offset or 0), (node.right.lineno, node.right.col_offset))
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
    ]


def _asides(tree: ast.AST) -> list[Place]:
    """Decorators, what the checks of a part are run with, and whether `zip` is strict."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    aside: list[ast.expr | ast.stmt] = [decorator for node in functions for decorator in node.decorator_list]
    aside += [node for node in functions if node.name == "unit_test_params"]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    aside += [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "strict"]
    return [_place(node) for node in aside]


def _place(node: ast.expr | ast.stmt) -> Place:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _types(tree: ast.AST) -> list[Place]:
    """Where types are said: in annotations, and in unions of names that look like types."""
    said: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            said.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            said.append(node.returns)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            said.extend([node] * all(_is_type(side) for side in (node.left, node.right)))
    return [_place(node) for node in said]


def _is_type(side: ast.expr) -> bool:
    match side:
        case ast.Constant(value=None):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in PLAIN_TYPES or (name[0].isupper() and not name.isupper())
        case ast.Subscript(value=value):
            return _is_type(value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) and _is_type(right)
        case _:
            return False
