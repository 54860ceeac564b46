"""Loading and rendering families: what is declared holds, and every mistake is named with file and line."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fakes import small_family
from tuner.family import Family, load_families, load_family, template_folder
from tuner.model import CompilerInfo, Config, Device, Facts, Problem, Silicon, Software, UserError

TOML = """\
summary = "a small family"
build_options = "-cl-mad-enable"

[axes]
ts = { values = [2, 4, 8], meaning = "tile" }
order = { values = ["rows", "columns"], meaning = "walk" }
vw = { values = [1, 2], meaning = "vector width", before = 1 }

[derived]
group = "ts * ts"
split = "problem.k > 1000"

[[rules]]
says = "a group fits the device"
test = "group <= device.max_group_size"

[[rules]]
says = "tiles are whole vectors"
test = "ts % vw == 0 and ts != vw"

[[scratch]]
name = "parts"
bytes = "problem.m * problem.n * problem.element_bytes"
when = "split"

[[launch]]
kernel = "gemm"
global = ["ceil_div(problem.n, ts) * ts", "ceil_div(problem.m, ts) * ts", "problem.batch"]
local = ["ts", "ts", "1"]

[[launch]]
kernel = "gemm_sum"
global = ["problem.n"]
local = ["1"]
scratch = ["parts"]
when = "split"

[[default]]
ts = 8
order = "rows"

[[default]]
ts = 2
order = "rows"
"""
TEMPLATE = """\
{% include "part.cl.j2" %}
// tile
#define TS {{ ts }}  /* rows */
{% if vw > 1 %}
#define VW {{ vw }}
{% endif %}
{% if order == "rows" %}
#define ROWS
{% endif %}
#define M {{ problem.m }}
#define UNITS {{ device.compute_units }}

__kernel void gemm() { asm("// kept /* too */"); }
__kernel void gemm_sum() {}
"""
CPU = Device(
    Silicon("Intel", "a CPU", "cpu", 8, 0), Software("P", "1", "OpenCL C 1.2", "d"), "0", Facts(shares_cores=True)
)
GPU = Device(
    Silicon("NVIDIA", "a GPU", "gpu", 132, 139),
    Software("P", "1", "OpenCL C 1.2", "d"),
    "0",
    Facts(49152, 1024, (1024, 1024, 64), 2**37, 2**35, fp64=True, c_level=300),
)
# The least that OpenCL 1.2 asks of a device of the full profile.
LEAST = Device(
    Silicon("any", "least", "accelerator", 1, 0),
    Software("P", "1", "OpenCL C 1.2", "d"),
    "0",
    Facts(32768, 1, (1, 1, 1)),
)
PROBLEM = Problem(100, 200, 300)


def write(folder: Path, toml: str = TOML, template: str = TEMPLATE, part: str = "// shared\n") -> Path:
    (folder / "part.cl.j2").write_text(part)
    (folder / "mine.cl.j2").write_text(template)
    path = folder / "mine.toml"
    path.write_text(toml)
    return path


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return load_family(write(tmp_path))


def of(**values: Any) -> Config:
    return Config.of("mine", {"order": "rows", "vw": 1, **values})


def test_declares(family: Family) -> None:
    assert family.name == "mine"
    assert family.summary == "a small family"
    assert [axis.name for axis in family.axes] == ["ts", "order", "vw"]
    assert family.axes[0].values == (2, 4, 8)
    assert family.axes[2].before == 1
    assert list(family.derived) == ["group", "split"]


def test_complete_fills_axes_added_since(family: Family) -> None:
    assert family.complete({"ts": 4, "order": "rows"}) == of(ts=4)
    assert family.complete({"ts": 4, "order": "rows", "vw": 2}) == of(ts=4, vw=2)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"order": "rows"}, "mine needs a value for ts: 2, 4, 8."),
        ({"ts": 3, "order": "rows"}, "ts = 3 is none of the choices of mine: 2, 4, 8."),
        ({"ts": "4", "order": "rows"}, "ts = '4' is none of the choices"),
        ({"ts": 4, "order": "rows", "vw": True}, "vw = True is none of the choices"),
        ({"ts": 4.0, "order": "rows"}, "ts = 4.0 is none of the choices"),
        ({"ts": [4], "order": "rows"}, "ts = [4] is none of the choices"),
        ({"ts": 4, "order": "rows", "tsx": 1}, "mine has no axis tsx; its axes are: ts, order, vw."),
    ],
)
def test_complete_refuses(family: Family, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)):
        family.complete(values)


def test_a_broken_rule_is_a_sentence(family: Family) -> None:
    assert family.broken_rule(of(ts=2, vw=2), PROBLEM, CPU) == "tiles are whole vectors"
    assert family.broken_rule(of(ts=4), PROBLEM, LEAST) == "a group fits the device"
    assert family.broken_rule(of(ts=4, vw=2), PROBLEM, CPU) is None


def test_an_old_configuration_is_completed(family: Family) -> None:
    old = Config.of("mine", ts=4, order="rows")
    assert family.broken_rule(old, PROBLEM, CPU) is None
    assert family.render(old, PROBLEM, CPU) == family.render(of(ts=4), PROBLEM, CPU)


def test_another_familys_configuration_is_refused(family: Family) -> None:
    with pytest.raises(UserError, match="a configuration of yours, not of mine"):
        family.broken_rule(Config.of("yours", ts=4), PROBLEM, CPU)


def test_default_is_the_first_legal_one(family: Family) -> None:
    small = Device(CPU.silicon, CPU.software, "0", Facts(max_group_size=4))
    assert family.default(PROBLEM, CPU) == of(ts=8)
    assert family.default(PROBLEM, small) == of(ts=2)
    with pytest.raises(UserError, match=r"no default of mine is legal for .* on least; .* a group fits the device"):
        family.default(PROBLEM, LEAST)


def test_derive(family: Family) -> None:
    assert family.derive(of(ts=4), PROBLEM, CPU) == {"group": 16, "split": False}


def test_render(family: Family) -> None:
    rendered = family.render(of(ts=4, vw=2, order="columns"), PROBLEM, CPU)
    assert rendered.source == (
        "// shared\n// tile\n#define TS 4  /* rows */\n#define VW 2\n#define M 100\n#define UNITS 8\n\n"
        '__kernel void gemm() { asm("// kept /* too */"); }\n__kernel void gemm_sum() {}\n'
    )
    assert rendered.build_options == "-cl-mad-enable"
    (step,) = rendered.steps
    assert (step.kernel, step.global_size, step.local_size, step.scratch) == ("gemm", (200, 100, 1), (4, 4, 1), ())
    assert rendered.scratch == ()


def test_launches_and_scratch_apply_when_they_say(family: Family) -> None:
    rendered = family.render(of(ts=4), Problem(100, 200, 2000), CPU)
    assert [step.kernel for step in rendered.steps] == ["gemm", "gemm_sum"]
    assert rendered.steps[1].scratch == ("parts",)
    assert rendered.scratch == (("parts", 100 * 200 * 4),)


def test_render_refuses_the_illegal(family: Family) -> None:
    with pytest.raises(UserError, match=r"illegal .* it breaks: tiles are whole vectors"):
        family.render(of(ts=2, vw=2), PROBLEM, CPU)


@pytest.mark.parametrize("empty", [{"m": 0}, {"n": 0}, {"k": 0}, {"batch": 0}])
def test_empty_products_are_refused(family: Family, empty: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"m": 4, "n": 4, "k": 4, **empty}
    problem = Problem(**sizes)
    with pytest.raises(UserError, match="multiplies nothing"):
        family.space(problem, CPU)


def test_comments_and_blank_lines_leave_the_source_hash(tmp_path: Path, family: Family) -> None:
    before = family.render(of(ts=4), PROBLEM, CPU)
    changed = TEMPLATE.replace("// tile", "\n/* a tile of C\n   in local memory */\n").replace("  /* rows */", "")
    after = load_family(write(tmp_path, template=changed))
    assert after.render(of(ts=4), PROBLEM, CPU).source_hash == before.source_hash
    assert after.hash != family.hash


@pytest.mark.parametrize(
    ("toml", "template"),
    [
        (TOML.replace("-cl-mad-enable", ""), TEMPLATE),
        (TOML, TEMPLATE.replace("// kept", "# kept")),
        (TOML, TEMPLATE.replace("#define ROWS", "#define COLUMNS")),
        (TOML.replace('local = ["ts", "ts", "1"]', 'local = ["ts", "1", "1"]'), TEMPLATE),
        (TOML.replace('when = "split"', 'when = "problem.k > 1"'), TEMPLATE),
    ],
)
def test_all_else_changes_the_source_hash(tmp_path: Path, family: Family, toml: str, template: str) -> None:
    before = family.render(of(ts=4), PROBLEM, CPU)
    after = load_family(write(tmp_path, toml, template))
    assert after.render(of(ts=4), PROBLEM, CPU).source_hash != before.source_hash


def test_an_axis_added_with_before_leaves_old_hashes(tmp_path: Path, family: Family) -> None:
    before = family.render(Config.of("mine", ts=4, order="rows"), PROBLEM, CPU)
    toml = TOML.replace("[derived]", 'pad = { values = [0, 1], meaning = "padding", before = 0 }\n[derived]')
    template = TEMPLATE + "{% if pad %}\n#define PAD {{ pad }}\n{% endif %}\n"
    after = load_family(write(tmp_path, toml, template))
    assert after.render(Config.of("mine", ts=4, order="rows"), PROBLEM, CPU).source_hash == before.source_hash


def test_hash_covers_all_three_files(tmp_path: Path, family: Family) -> None:
    hashes = {
        family.hash,
        load_family(write(tmp_path, TOML + "# changed\n")).hash,
        load_family(write(tmp_path, template=TEMPLATE + "\n")).hash,
        load_family(write(tmp_path, part="// other\n")).hash,
    }
    assert len(hashes) == 4
    assert load_family(write(tmp_path)).hash == family.hash


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ("[[rules]]", "[[rule]]", "[[rule]]", "unknown key `rule`: did you mean `rules`? The known ones are summary,"),
        ("summary =", "sumary =", "sumary", "unknown key `sumary`"),
        ('summary = "a small family"', "", None, "the key `summary` is missing"),
        ('"a small family"', "3", "summary", "`summary` is a string that is not empty"),
        ("ts * ts", "tz * ts", "group =", "unknown name `tz`"),
        ("group <= device", "grup <= device", "test = ", "unknown name `grup` (did you mean `group`?)"),
        ("device.max_group_size", "device.groups", "test = ", "unknown name `device.groups`"),
        ("ts % vw == 0 and", "ts % vw and", 'test = "ts %', "where a boolean is needed"),
        ("ts % vw == 0 and", "ts % (vw - 1) == 0 and", 'test = "ts %', "write max(1, vw - 1)"),
        ("says = \"tiles", "say = \"tiles", "say = \"tiles", "unknown key `say`: did you mean `says`?"),
        ('says = "tiles are whole vectors"', "", "[[rules]]\n\n", "the key `says` is missing"),
        ("group <= device.max_group_size", "group", 'test = "group"', "type int; true or false is needed"),
        ("values = [2, 4, 8]", "values = [2, '4', 8]", "ts = {", "distinct whole numbers or strings"),
        ("values = [2, 4, 8]", "values = [2, 4, 2]", "ts = {", "distinct whole numbers or strings"),
        ("values = [2, 4, 8]", "values = [true, false]", "ts = {", "distinct whole numbers or strings"),
        ("values = [2, 4, 8]", "values = [2, 4, 2147483648]", "ts = {", "too large"),
        ("values = [2, 4, 8]", "values = []", "ts = {", "a list of 1 to 256 choices"),
        ("before = 1", "before = 3", "vw = {", "`before` of `vw` is 3, which is none of its choices"),
        ("meaning = \"tile\"", "meaning = \"\"", "ts = {", "`meaning` is a string that is not empty"),
        ("meaning = \"tile\"", "mean = \"tile\"", "ts = {", "unknown key `mean`"),
        ("order = { values", "Order = { values", "Order = {", "`Order` cannot be a name here"),
        ("order = { values", "range = { values", "range = {", "`range` cannot be a name here"),
        ('split = "problem', 'ts = "problem', 'ts = "problem', "`ts` is already"),
        ('local = ["ts", "ts", "1"]', 'local = ["ts", "ts"]', 'local = ["ts", "ts"]', "same number of dimensions"),
        ('local = ["ts", "ts", "1"]', 'local = "ts"', 'local = "ts"', "a list of one to three expressions"),
        ('local = ["ts", "ts", "1"]', "local = [8, 8, 1]", "local = [8", "an expression is a string, not 8"),
        ('local = ["ts", "ts", "1"]', 'local = ["ts", "ts", "order"]', "local = [", "type str; a whole number"),
        ('kernel = "gemm"', 'kernel = "gemm-1"', 'kernel = "gemm-1"', "cannot be the name of a kernel"),
        ('scratch = ["parts"]', 'scratch = ["part"]', "scratch = [", "names of [[scratch]] buffers"),
        ('name = "parts"', 'nam = "parts"', 'nam = "parts"', "unknown key `nam`"),
        ("ts = 8\n", "ts = 16\n", "[[default]]", "in this default, ts = 16 is none of the choices of mine"),
        ("ts = 8\n", "", "[[default]]", "in this default, mine needs a value for ts"),
        ("[derived]", "[derived", "[derived", "this is not TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_toml_has_its_line(
    tmp_path: Path, old: str, new: str, line: str | None, complaint: str
) -> None:
    toml = TOML.replace(old, new, 1)
    with pytest.raises(UserError) as refusal:
        load_family(write(tmp_path, toml))
    number = 1 if line is None else line_of(toml, line)
    assert str(refusal.value).startswith(f"mine.toml:{number}: ")
    assert complaint in str(refusal.value)


def test_lines_inside_long_strings_and_dotted_tables(tmp_path: Path) -> None:
    toml = TOML.replace('"a small family"', '"""\nts = 1\n[axes]\n"""', 1)
    toml = toml.replace('vw = { values = [1, 2], meaning = "vector width", before = 1 }', "")
    toml = toml.replace("[derived]", '[axes.vw]\nvalues = [1, 2]\nmeaning = "width"\nbefore = 4\n\n[derived]')
    with pytest.raises(UserError, match=f"^mine.toml:{line_of(toml, 'before = 4')}: `before` of `vw`"):
        load_family(write(tmp_path, toml))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("{{ ts }}", "{{ tz }}", "`tz` is no axis or derived size"),
        ("#define VW {{ vw }}", "#define VW {{ wv }}", "`wv` is no axis or derived size"),
        ("{{ problem.m }}", "{{ problem.mm }}", "'dict object' has no attribute 'mm'"),
        ("{{ ts }}", "{{ ts", "unexpected '*'"),
        ("{{ ts }}", "{% end %}", "unknown tag 'end'"),
        ("{{ ts }}", "{{ ts | nonsense }}", "No filter named 'nonsense'"),
        ("{{ ts }}", "{{ ''.__class__.__mro__ }}", "must not use `__"),
        ("{{ ts }}", "{{ ''['__class__'] }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ ts }}", "{{ '' | attr('__class__') }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ ts }}", "{{ problem.update(m=1) }}", "access to attribute 'update' of 'dict' object is unsafe"),
        ("{{ ts }}", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
        ("{{ ts }}", "{{ 'x' * 9999999999 }}", "a repetition of more than"),
        ("{{ ts }}", "{{ 9999 * 'xx' * 9999 }}", "a repetition of more than"),
        ("{{ ts }}", "{{ 10 ** 9999999 }}", "a power above 64"),
        ("{{ ts }}", "{{ ts // 0 }}", "zero"),
        ("{{ ts }}", "{{ ts + order }}", "unsupported operand"),
        ("{{ ts }}", '{% include "none.cl.j2" %}', "there is no template `none.cl.j2` in"),
        ("{{ ts }}", "{% include order %}", "include files by their literal name"),
        ("{{ ts }}", '{% include "../part.cl.j2" %}', "there is no template `../part.cl.j2` in"),
    ],
)
def test_a_mistake_in_the_template_has_its_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    template = TEMPLATE.replace(old, new, 1)
    with pytest.raises(UserError) as refusal:
        load_family(write(tmp_path, template=template))
    assert str(refusal.value).startswith(f"mine.cl.j2:{line_of(template, new)}: ")
    assert complaint in str(refusal.value)


def test_a_mistake_in_an_included_file_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^part\.cl\.j2:2: 'tz' is undefined"):
        load_family(write(tmp_path, part="// shared\n#define X {{ tz }}\n"))
    with pytest.raises(UserError, match=r"^part\.cl\.j2:2: "):
        load_family(write(tmp_path, part="// shared\n{% if %}\n"))


def test_the_template_may_use_the_built_in_files(tmp_path: Path) -> None:
    template = '{% include "common.cl.j2" %}\n' + TEMPLATE
    rendered = load_family(write(tmp_path, template=template)).render(of(ts=4), PROBLEM, CPU)
    assert "GEMM_ARGUMENTS" in rendered.source


def test_a_launched_kernel_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.toml: a \[\[launch\]\] names gem2, no kernel"):
        load_family(write(tmp_path, TOML.replace('kernel = "gemm"', 'kernel = "gem2"')))


def test_global_sizes_must_be_whole_multiples(tmp_path: Path) -> None:
    toml = TOML.replace("ceil_div(problem.m, ts) * ts", "problem.m")
    family = load_family(write(tmp_path, toml))
    line = line_of(toml, "[[launch]]")
    with pytest.raises(
        UserError, match=rf"^mine\.toml:{line}: gemm would run \(200, 100, 1\) .* groups of \(8, 8, 1\)"
    ):
        family.render(of(ts=8), PROBLEM, CPU)


def test_a_launch_is_given_those_of_its_scratch_buffers_that_there_are(tmp_path: Path) -> None:
    toml = TOML.replace('when = "split"', 'when = "problem.k > 5000"', 1)
    family = load_family(write(tmp_path, toml))
    short, long = (family.render(of(ts=8), Problem(8, 8, k), CPU) for k in (2000, 6000))
    assert (short.steps[-1].scratch, short.scratch) == ((), ())
    assert long.steps[-1].scratch == ("parts",) and [name for name, _ in long.scratch] == ["parts"]


def test_some_launch_must_apply(tmp_path: Path) -> None:
    toml = TOML.replace('kernel = "gemm"\n', 'kernel = "gemm"\nwhen = "problem.m > 50"\n')
    family = load_family(write(tmp_path, toml))
    with pytest.raises(UserError, match=r"mine\.toml: no \[\[launch\]\] applies"):
        family.render(of(ts=8), Problem(8, 8, 8), CPU)


@pytest.mark.parametrize("missing", ["[[launch]]", "[[default]]"])
def test_launch_and_default_are_required(tmp_path: Path, missing: str) -> None:
    toml = TOML[: TOML.index(missing)] + (TOML[TOML.index("[[default]]") :] if missing == "[[launch]]" else "")
    with pytest.raises(UserError, match=f"the key `{missing.strip('[]')}` is missing"):
        load_family(write(tmp_path, toml))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read this family"):
        load_family(tmp_path / "none.toml")
    path = write(tmp_path)
    path.write_bytes(b'summary = "\xff"')
    with pytest.raises(UserError, match="cannot read this family"):
        load_family(path)
    write(tmp_path)
    (tmp_path / "mine.cl.j2").unlink()
    with pytest.raises(UserError, match=r"there is no template `mine\.cl\.j2`"):
        load_family(path)


def test_a_users_folder_adds_families(tmp_path: Path) -> None:
    write(tmp_path)
    families = load_families([tmp_path])
    assert "mine" in families
    assert "naive" in families


def test_a_users_family_may_not_take_a_built_in_name(tmp_path: Path) -> None:
    write(tmp_path).rename(tmp_path / "naive.toml")
    (tmp_path / "mine.cl.j2").rename(tmp_path / "naive.cl.j2")
    with pytest.raises(UserError, match=r"the family naive of .* is also in .*; rename its two files"):
        load_families([tmp_path])


def test_a_folder_without_families_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no kernel family"):
        load_families([tmp_path])


BUILT_IN = load_families()
PROBLEMS = [
    Problem(m, n, k, dtype=dtype, trans_a=trans_a, trans_b=trans_b, align=align)
    for m, n, k in ((1, 1, 1), (1, 4096, 4096), (127, 129, 131), (512, 512, 512), (8192, 8192, 64), (2**31 - 1, 1, 2))
    for dtype, align in (("float32", 4), ("float32", 16), ("float64", 8))
    for trans_a in (False, True)
    for trans_b in (False, True)
]


EVERYWHERE = [name for name, family in BUILT_IN.items() if family.space(Problem(8, 8, 8), GPU).size[0]]


def test_only_families_with_a_test_file_of_their_own_ask_for_special_devices() -> None:
    special = sorted(set(BUILT_IN) - set(EVERYWHERE))
    assert special == ["matrix_unit"] and Path(__file__).with_name("test_matrix_unit.py").exists()


@pytest.mark.parametrize("name", EVERYWHERE)
def test_built_in_defaults_are_legal_and_render(name: str) -> None:
    family = BUILT_IN[name]
    for problem in PROBLEMS:
        if name == "skinny" and min(problem.m, problem.n) > 16:
            continue
        for device in (CPU, GPU):
            config = family.default(problem, device)
            assert family.render(config, problem, device).steps


def test_naive_runs_on_the_least_that_opencl_allows() -> None:
    for problem in PROBLEMS:
        assert BUILT_IN["naive"].default(problem, LEAST)["group_m"] == 1


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_families_explain_themselves(name: str) -> None:
    family = BUILT_IN[name]
    template = (template_folder() / f"{name}.cl.j2").read_text()
    assert family.summary
    for axis in family.axes:
        assert axis.meaning
        assert re.search(rf"\b{axis.name}\b", template), f"{axis.name} changes nothing in the source"


def test_no_python_knows_a_family_by_its_name() -> None:
    """The families' own declarations decide what is tried; reports may draw rungs, and importers know both sides."""
    known = {
        f"{path.name}:{node.lineno}"
        for path in Path(tuner.__file__).parent.rglob("*.py")
        if path.parent.name not in ("report", "ladder", "interchange")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in BUILT_IN
    }
    assert not known


def test_what_is_tried_first_depends_on_the_device() -> None:
    def first(device: Device) -> str:
        return max(BUILT_IN.values(), key=lambda family: family.rank(Problem(4096, 4096, 4096), device)).name

    assert (first(CPU), first(GPU)) == ("vector", "register_tiled")


def test_a_family_without_a_rank_has_none_to_speak_of(family: Family) -> None:
    assert family.rank(PROBLEM, CPU) == 0


@pytest.mark.parametrize(
    ("rank", "message"), [('"ts"', "unknown name"), ('"problem.trans_a"', "a whole number is needed")]
)
def test_a_rank_is_a_number_of_problem_and_device(tmp_path: Path, rank: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_family(write(tmp_path, f"rank = {rank}\n{TOML}"))


def test_what_may_spill_is_a_number_of_bytes(tmp_path: Path) -> None:
    family = small_family(tmp_path)
    assert family.refused_build(CompilerInfo(spill_bytes=10**6)) is None
    declared = tmp_path / "grid.toml"
    text = declared.read_text()
    declared.write_text(f"most_spill_bytes = 0\n{text}")
    family = load_family(declared)
    assert family.refused_build(CompilerInfo()) is None and family.refused_build(CompilerInfo(spill_bytes=0)) is None
    assert "8 bytes of registers spill" in str(family.refused_build(CompilerInfo(spill_bytes=8)))
    declared.write_text(f"most_spill_bytes = -1\n{text}")
    with pytest.raises(UserError, match=r"grid.toml:1: `most_spill_bytes` is a whole number"):
        load_family(declared)
