"""Hostile names, geocodes and labels are shown as text, and files cannot make a spreadsheet compute."""

from tests.browser.releases import HOSTILE_NAME


def test_names_are_text(visit):
    page = visit("hostile")
    page.open("table=sex")
    assert page.text("#area-title") == HOSTILE_NAME
    assert "hostile <img src=x onerror=alert(1)> & co" in page.text("#release")
    assert "m<script>alert(3)</script>" in page.text("#answers")
    assert page.page.locator("img, body script, svg[onload]").count() == 0


def test_hostile_geocodes_are_found_and_linked(visit):
    page = visit("hostile")
    page.open()
    page.page.fill("#find", "=1+cmd")
    page.page.click("[role=option] >> nth=0")
    page.shows("#area-title", "=1+cmd")
    page.settled()
    page.page.click("#inside tbody a >> nth=0")
    page.shows("#area-title", "Block")
    page.settled()
    assert "\\u202e" in page.text("#area-title")  # the character that reverses text is written out
    page.page.reload()
    page.settled()
    assert "\\u202e" in page.text("#area-title")


def test_files_are_not_computed(visit):
    page = visit("hostile")
    page.open("table=sex")
    text = page.saved("#area button:has-text('Download as CSV')")
    assert "'=HYPERLINK" in text
    assert not any(
        field.startswith(("=", "+", "@"))
        for line in text.splitlines()
        for field in line.replace('"', "").split(",")
    )


def test_hostile_addresses_are_text(visit):
    page = visit("hostile")
    page.open(
        "area=0/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&table=%3Cb%3E&district=%3Cscript%3E&with=x&map=1/2&measure=q"
    )
    assert "<img src=x onerror=alert(1)>" in page.text("#area")
