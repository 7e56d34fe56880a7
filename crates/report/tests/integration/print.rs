//! Figures as PDF and EPS, read back.

use crate::common::{everything, figures, golden};
use flate2::read::ZlibDecoder;
use jitlat_report::PictureFormat;
use jitlat_report::draw::{self, Drawing, Shape, layout};
use std::collections::BTreeMap;
use std::io::Read;

/// The texts of a drawing, in the order in which they are drawn.
fn texts(drawing: &Drawing) -> Vec<&str> {
    let shapes = [&drawing.frame, &drawing.data, &drawing.labels].into_iter().flatten();
    shapes.filter_map(|s| if let Shape::Text(text) = s { Some(text.text.as_str()) } else { None }).collect()
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|part| part == what).map(|at| at + from)
}

fn line_at(bytes: &[u8], from: usize) -> &str {
    let end = find(bytes, b"\n", from).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[from..end]).unwrap().trim()
}

/// A PDF file: its objects, found by the table at its end.
struct PdfFile<'a>(BTreeMap<u32, &'a [u8]>);

impl<'a> PdfFile<'a> {
    fn read(file: &'a [u8]) -> PdfFile<'a> {
        assert!(file.starts_with(b"%PDF-1.7") && file.ends_with(b"%%EOF"));
        let start = file.windows(9).rposition(|part| part == b"startxref").unwrap();
        let table: usize = line_at(file, start + 10).parse().unwrap();
        assert_eq!(line_at(file, table), "xref");
        let sizes = line_at(file, table + 5);
        let count: usize = sizes.split_once(' ').unwrap().1.parse().unwrap();
        let entries = table + 5 + sizes.len() + 1;
        let trailer = String::from_utf8_lossy(&file[entries + 20 * count..]).into_owned();
        for entry in ["trailer", "/Root 1 0 R", "/Info 5 0 R", &format!("/Size {count}")] {
            assert!(trailer.contains(entry), "{entry}: {trailer}");
        }
        let object = |k: usize| {
            let entry = std::str::from_utf8(&file[entries + 20 * k..][..20]).unwrap();
            let at: usize = entry[..10].parse().unwrap();
            if entry.as_bytes()[17] != b'n' {
                return None;
            }
            let head = format!("{k} 0 obj");
            assert_eq!(line_at(file, at), head, "object {k} is where the table says");
            let end = find(file, b"endobj", at).unwrap();
            Some((k as u32, &file[at + head.len()..end]))
        };
        PdfFile((0..count).filter_map(object).collect())
    }

    fn text(&self, number: u32) -> String {
        String::from_utf8_lossy(self.0[&number]).into_owned()
    }

    /// The decoded stream of an object.
    fn stream(&self, number: u32) -> Vec<u8> {
        let object = self.0[&number];
        let words = self.text(number);
        assert!(words.contains("/Filter /FlateDecode"), "{number}");
        let length: usize =
            words.split_once("/Length ").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
        let start = find(object, b"stream\n", 0).unwrap() + 7;
        assert!(object[start + length..].trim_ascii_start().starts_with(b"endstream"), "{number}");
        let mut decoded = Vec::new();
        ZlibDecoder::new(&object[start..start + length]).read_to_end(&mut decoded).unwrap();
        decoded
    }

    /// The texts of the page, with characters that the font lacks as □.
    fn texts(&self) -> Vec<String> {
        let map = String::from_utf8(self.stream(10)).unwrap();
        let listed = map.lines().skip_while(|line| !line.ends_with("beginbfchar"));
        let pairs = listed.filter_map(|line| line.strip_prefix('<')?.strip_suffix('>')?.split_once("> <"));
        let number = |hex: &str| u16::from_str_radix(hex, 16).ok();
        let meanings: BTreeMap<u16, u16> =
            pairs.filter_map(|(glyph, c)| Some((number(glyph)?, number(c)?))).collect();
        let meaning = |glyph: u16| match meanings.get(&glyph) {
            Some(c) => char::from_u32(u32::from(*c)).unwrap(),
            None => '□',
        };
        let content = self.stream(4);
        let mut texts = Vec::new();
        let mut at = 0;
        while let Some(show) = find(&content, b" Tj", at) {
            let placed = content[..show].windows(2).rposition(|part| part == b"Tm").unwrap();
            let glyphs = string(content[placed + 2..show].trim_ascii());
            texts.push(glyphs.chunks(2).map(|g| meaning(u16::from_be_bytes([g[0], g[1]]))).collect());
            at = show + 3;
        }
        texts
    }
}

/// The bytes of a string of PDF: in hexadecimal, or with escapes.
fn string(written: &[u8]) -> Vec<u8> {
    if let Some(hex) = written.strip_prefix(b"<") {
        let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
        let digits: Vec<u8> = hex.iter().filter_map(digit).collect();
        return digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    }
    unescaped(written.strip_prefix(b"(").and_then(|w| w.strip_suffix(b")")).unwrap())
}

/// The bytes of a string of PDF or PostScript without its parentheses.
fn unescaped(written: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = written.iter().copied();
    while let Some(b) = rest.next() {
        if b != b'\\' {
            bytes.push(b);
            continue;
        }
        bytes.push(match rest.next().unwrap() {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            first @ b'0'..=b'3' => {
                let more = [rest.next().unwrap(), rest.next().unwrap()];
                more.iter().fold(first - b'0', |value, digit| value << 3 | (digit - b'0'))
            }
            other => other,
        });
    }
    bytes
}

#[test]
fn a_pdf_has_the_size_the_font_and_every_text_of_the_figure() {
    let mut images = 0;
    for (name, figure) in everything() {
        let drawing = layout(&figure);
        let bytes = draw::encode(&drawing, PictureFormat::Pdf).unwrap();
        let pdf = PdfFile::read(&bytes);
        let page = pdf.text(3);
        let size = format!("/MediaBox [0 0 570 {}]", drawing.height * 0.75);
        assert!(page.contains(&size), "{name}: {size}: {page}");
        assert_eq!(pdf.stream(9).len(), 36_808, "{name}: the font's file");
        let drawn: Vec<String> = texts(&drawing).into_iter().map(str::to_owned).collect();
        assert_eq!(pdf.texts(), drawn, "{name}");
        images += usize::from(page.contains("/I0 "));
        for number in pdf.0.keys().filter(|number| **number > 10) {
            assert!(!pdf.stream(*number).is_empty(), "{name}: image {number}");
        }
    }
    assert!(images > 0, "no figure has an image");
}

#[test]
fn an_eps_has_the_size_the_font_and_every_text_of_the_figure() {
    for (name, figure) in everything() {
        let drawing = layout(&figure);
        let eps = String::from_utf8(draw::encode(&drawing, PictureFormat::Eps).unwrap()).unwrap();
        let high = drawing.height * 0.75;
        let head = format!(
            "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 570 {}\n%%HiResBoundingBox: 0 0 570 {high}\n",
            high.ceil()
        );
        assert!(eps.starts_with(&head), "{name}: {}", &eps[..120]);
        assert!(eps.ends_with("showpage\n%%EOF\n") && eps.is_ascii(), "{name}");
        // Nothing is painted with a command that leaves the page, or needs a device.
        for forbidden in ["setpagedevice", "initgraphics", "erasepage", "letter", "a4"] {
            assert!(!eps.split_whitespace().any(|word| word == forbidden), "{name}: {forbidden}");
        }
        let codes: BTreeMap<u8, char> = eps
            .lines()
            .filter_map(|line| line.strip_prefix("dup ")?.strip_suffix(" put")?.split_once(" /uni"))
            .map(|(code, hex)| (code.parse().unwrap(), u32::from_str_radix(hex, 16).unwrap()))
            .map(|(code, c)| (code, char::from_u32(c).unwrap()))
            .collect();
        let drawn = eps.lines().filter(|line| line.ends_with(") t") || line.ends_with(") u"));
        let read = |line: &str| -> String {
            let (_, rest) = line.split_once('(').unwrap();
            let bytes = unescaped(&rest.as_bytes()[..rest.len() - 3]);
            bytes.iter().map(|code| codes.get(code).copied().unwrap_or('□')).collect()
        };
        assert_eq!(drawn.map(read).collect::<Vec<_>>(), texts(&drawing), "{name}");
        let (_, font) = eps.split_once("/sfnts [<~").unwrap();
        let digits = font.split_once("~>").unwrap().0.bytes().filter(|b| !b.is_ascii_whitespace());
        let bytes: usize = digits
            .fold((0, 0), |(bytes, run), b| match (b, run) {
                (b'z', 0) => (bytes + 4, 0),
                (_, 4) => (bytes + 4, 0),
                _ => (bytes, run + 1),
            })
            .0;
        // The font's 36 808 bytes; the byte after them is a group of its own.
        assert_eq!(bytes, 36_808, "{name}");
    }
}

#[test]
fn names_that_look_like_postscript_are_drawn_as_they_are() {
    let mut figure = figures(&golden("a_loopback_v1")).remove(0);
    figure.title = "a) show (quit\\ % µ – 東".to_owned();
    let drawing = layout(&figure);
    let eps = String::from_utf8(draw::encode(&drawing, PictureFormat::Eps).unwrap()).unwrap();
    assert!(eps.contains("%%Title: a) show (quit\\ % ? ? ?\n"), "the title of the file");
    assert!(eps.contains(r"(a\) show \(quit\\ % \2"), "the title of the figure");
    let bytes = draw::encode(&drawing, PictureFormat::Pdf).unwrap();
    assert_eq!(PdfFile::read(&bytes).texts()[0], "a) show (quit\\ % µ – □", "the font has no 東");
}
