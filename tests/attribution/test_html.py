"""The HTML report in a browser: it shows what it says, finds what is searched, and fits a phone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from scripts import run_json

browser = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

# A script that knows nothing of yobx.
EXPORT = """
class Model(torch.nn.Module):
    def forward(self, x, y):
        z = x.sin().cos().tan().exp().abs()
        return torch.cat([x + y, z]) * y.expand(x.shape[0], -1).sum()
torch.export.export(Model(), (torch.randn(3, 4), torch.randn(1, 4)), dynamic_shapes=({0: D}, {0: D}))
print("0")
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("html")
    run_json(EXPORT, cwd=folder, YOBX_PATCH="torch", YOBX_PATCH_REPORT="report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def chromium():
    with browser.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


def opened(chromium, report, width, scheme="light"):
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.said.append(request.url) if request.url.startswith("http") else None)
    page.goto(report.as_uri())
    return page


def test_search_and_clicks(chromium, report):
    page = opened(chromium, report, 1280)
    cards = page.locator(".patch")
    names = cards.locator(".name").all_inner_texts()
    assert {"infer_size", "broadcast_shapes", "expand"} <= set(names)
    page.fill("#search", "infer")
    assert cards.locator(".name").all_inner_texts() == ["infer_size"]
    page.fill("#search", "nothing is called so")
    assert page.locator("#patches").inner_text() == "No patch matches."
    page.fill("#search", "")
    assert page.locator("article.chosen").count() == 0
    page.click('[data-node="0 add"]')
    chosen = page.locator("article.chosen")
    assert chosen.count() == 1
    assert "add" in chosen.locator(".chip").first.inner_text()
    assert "@@" in chosen.locator(".diff").inner_text()
    page.click("#split")
    assert page.locator(".diff td.del").count() and page.locator(".diff td.add").count()
    page.click("article.chosen .chip >> nth=0")
    assert page.locator(".node.chosen").count() == 1
    folded = page.locator(".fold")
    assert folded.count()
    before = page.locator(".node").count()
    folded.first.click()
    assert page.locator(".node").count() > before
    assert page.said == []


OVERLAPS = """() => {
  const named = "h1, h2, .made, button, input, .summary div, .patch .name, .badge, .why, dt, dd, .node span";
  const boxes = [...document.querySelectorAll(named)]
    .filter((e) => e.checkVisibility() && !e.closest(".diff"))
    .map((e) => [e, e.getBoundingClientRect()]).filter(([, b]) => b.width && b.height);
  const found = [];
  for (const [i, [a, x]] of boxes.entries())
    for (const [b, y] of boxes.slice(i + 1)) {
      if (a.contains(b) || b.contains(a)) continue;
      const sticky = a.closest(".sticky") !== b.closest(".sticky");
      const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
      const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
      if (wide > 1 && high > 1 && !sticky) found.push(`${a.innerText} / ${b.innerText}`);
      if (wide > 1 && high > 1 && sticky && x.right > y.left + 1 && y.right > x.left + 1) found.push("columns");
    }
  return [found, document.documentElement.scrollWidth - window.innerWidth];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_overlaps_or_sticks_out(chromium, report, width, scheme):
    page = opened(chromium, report, width, scheme)
    page.locator(".patch > button").first.click()
    overlaps, beyond = page.evaluate(OVERLAPS)
    assert overlaps == []
    assert beyond <= 0
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.said == []
    if os.environ.get("YOBX_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(os.environ["YOBX_TEST_SCREENSHOTS"]) / f"report-{width}-{scheme}.png", full_page=True)


def test_data_cannot_end_the_script_that_carries_it(chromium, tmp_path):
    from yobx.attribution import data, html

    part = data.PatchPart(patch="p", runs=1, nodes=[])
    patch = dict.fromkeys(data.PatchFacts.__annotations__, "</script><script>document.title = 'broken'</script>")
    made = data.Report(
        schema=data.SCHEMA,
        made_by={},
        patches=[data.PatchFacts(**{**patch, "id": "p"})],
        programs=[data.Program(title="t", involved=[part], graphs=[])],
    )
    file = tmp_path / "report.html"
    file.write_text(html.page(made), encoding="utf-8")
    page = opened(chromium, file, 1280)
    assert page.title() == "yobx report"
    assert "</script>" in page.locator(".patch .name").inner_text()
    assert page.said == []
