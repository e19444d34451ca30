"""The built pages: links lead somewhere, nothing comes from elsewhere, figures are described."""

import math
import re
from urllib.parse import unquote, urlsplit

import pytest
from built_book import HTML, ROOT, page_names, read_page, require_book, what_is_wrong
from course_claims import read_claims

pytestmark = pytest.mark.book
PAGES = page_names() or ["index.html"]
LOADING = {"script": "src", "img": "src", "source": "src", "iframe": "src", "audio": "src"}
LOADING_RELS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect"}


@pytest.fixture(autouse=True)
def _built(request):
    if request.node.name != "test_the_book_is_built":
        require_book()


def test_the_book_is_built():
    """The one test that says so where the book is missing, stale or failed."""
    if reason := what_is_wrong():
        pytest.fail(reason, pytrace=False)


def targets(page):
    """Yield every address that a page links to or loads."""
    for tag, attributes in page.tags:
        for key in ("href", "src"):
            if attributes.get(key) and tag != "use":
                yield attributes[key]


def is_external(address):
    return bool(urlsplit(address).scheme not in ("", "data", "blob") or address.startswith("//"))


@pytest.mark.parametrize("name", PAGES)
def test_every_internal_link_and_anchor_exists(name):
    page, broken = read_page(name), []
    for address in targets(page):
        if is_external(address) or address.startswith("data:") or address == "#":
            continue
        path, _, anchor = address.partition("#")
        path = path.partition("?")[0]
        file = (page.path.parent / unquote(path)).resolve() if path else page.path
        if not file.is_file():
            broken.append(address)
        elif anchor and file.suffix == ".html":
            other = read_page(file.relative_to(HTML.resolve()).as_posix())
            if unquote(anchor) not in other.ids:
                broken.append(address)
    assert not broken


def test_every_file_that_a_style_sheet_names_exists():
    named = [
        (sheet.relative_to(HTML).as_posix(), address)
        for sheet in HTML.rglob("*.css")
        for address in re.findall(r"url\([\"']?([^\"')]+)", sheet.read_text(encoding="utf8"))
        if not address.startswith(("data:", "#", "http"))
    ]
    missing = [each for each in named if not (HTML / each[0]).parent.joinpath(each[1]).is_file()]
    assert named
    assert not missing


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_loaded_from_elsewhere(name):
    page = read_page(name)
    loaded = [a[LOADING[t]] for t, a in page.tags if t in LOADING and a.get(LOADING[t])]
    for link in page.find("link"):
        if LOADING_RELS & set((link.get("rel") or "").split()):
            loaded.append(link["href"])
    assert [address for address in loaded if is_external(address)] == []
    text = page.path.read_text(encoding="utf8")
    assert re.findall(r"""(?:@import|url\()\s*["']?(?:https?:)?//[^)"']*""", text) == []


@pytest.mark.parametrize("path", sorted(HTML.rglob("*.css")), ids=lambda p: p.name[:30])
def test_no_style_loads_from_elsewhere(path):
    text = path.read_text(encoding="utf8")
    assert re.findall(r"""(?:@import|url\()\s*["']?(?:https?:)?//[^)"']*""", text) == []


@pytest.mark.parametrize("name", PAGES)
def test_no_placeholder_address_is_published(name):
    text = (HTML / name).read_text(encoding="utf8")
    assert "ORG/REPO" not in text
    assert "executablebooks/jupyter-book" not in text


@pytest.mark.parametrize("name", PAGES)
def test_no_script_that_the_course_does_not_use(name):
    scripts = " ".join(a.get("src") or "" for a in read_page(name).find("script"))
    for unused in ("require", "thebe", "fontawesome", "mathjax", "MathJax", "html-manager"):
        assert unused not in scripts


@pytest.mark.parametrize("name", [n for n in PAGES if n.startswith("chapters/")])
def test_chapter_offers_to_be_run(name):
    from course_address import read_address

    address, path = read_address(ROOT), name.replace(".html", ".ipynb")
    links = {a.get("href") for a in read_page(name).find("a")}
    assert address.colab(path) in links
    assert address.binder(path) in links
    assert f"../_sources/{path}" in links
    assert (HTML / "_sources" / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_real_description(name):
    poor = []
    for image in read_page(name).find("img"):
        alt = image.get("alt")
        decorative = alt == "" or "logo" in (image.get("class") or "")
        if not decorative and (alt is None or len(alt) < 25 or "_images" in alt):
            poor.append(image)
    assert not poor


@pytest.mark.parametrize("name", [n for n in PAGES if n.startswith(("chapters/", "book/"))])
def test_page_has_title_language_and_description(name):
    page = read_page(name)
    metas = {m.get("name") or m.get("property"): m.get("content") for m in page.find("meta")}
    assert page.find("html")[0]["lang"] == "en"
    assert len(metas["description"]) > 40
    assert metas["og:url"].endswith(name)
    assert (HTML / "_static" / metas["og:image"].rsplit("/", 1)[-1]).is_file()
    assert [tag for tag, _ in page.tags if tag == "h1"].count("h1") >= 1


@pytest.mark.parametrize("name", PAGES)
def test_no_raw_dollar_maths_and_no_error_output(name):
    page = read_page(name)
    prose = "".join(page.prose)
    assert re.findall(r"\$[^$\n]{1,80}\$", prose) == []
    classes = " ".join(a.get("class") or "" for _, a in page.tags).split()
    assert "traceback" not in classes
    assert "stderr" not in classes


def test_the_picture_on_the_first_page_computes_what_it_shows():
    picture = (ROOT / "book" / "_static" / "attention.svg").read_text(encoding="utf8")
    scores = [float(s) for s in re.findall(r'class="ap-score"[^>]*>([\d.-]+)<', picture)]
    weights = [float(w) for w in re.findall(r'class="ap-weight"[^>]*>([\d.]+)<', picture)]
    total = sum(math.exp(s) for s in scores)
    assert len(scores) == 4
    assert weights == [round(math.exp(s) / total, 2) for s in scores]
    assert sum(weights) == pytest.approx(1.0)


def test_the_ledger_links_each_verdict_to_its_cells():
    text = (HTML / "book" / "claims.html").read_text(encoding="utf8")
    rows = [row for row in text.split("<tr")[2:] if 'class="claim-id"' in row]
    assert len(rows) == len(read_claims(ROOT / "book" / "claims.toml"))
    for row in rows:
        assert len(re.findall('class="verdict ', row)) == 1
        assert "#cell-" in row
    assert f"All <strong>{len(rows)} statements are executed" in text


def test_unused_files_are_not_shipped():
    shipped = [f.name for f in (HTML / "_static").rglob("*") if f.is_file()]
    assert not [n for n in shipped if "fontawesome" in n or n.startswith("fa-") or "thebe" in n]
    assert "LICENSE" in shipped  # KaTeX's, beside its files
    assert (HTML / "404.html").is_file()


def test_the_reference_covers_every_public_module():
    files = (ROOT / "attncourse").rglob("*.py")
    names = [f.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for f in files]
    public = {n.removesuffix(".__init__") for n in names if "._" not in n.replace(".__init__", "")}
    pages = [read_page(f"book/{name}.html") for name in ("api", "api_grading")]
    described = {i.removeprefix("module-") for page in pages for i in page.ids}
    assert public - described == {"attncourse"}
