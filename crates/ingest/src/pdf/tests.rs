use std::fmt::Write as _;
use std::io::Write as _;

use toller_core::Value;

use super::*;

/// A file with these objects, numbered from 1; the first is the catalogue. The table is right, as readers need it.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    file_with_trailer(objects, "")
}

fn file_with_trailer(objects: &[Vec<u8>], entries: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut table = String::new();
    for (number, object) in objects.iter().enumerate() {
        writeln!(table, "{:010} 00000 n ", bytes.len()).unwrap();
        bytes.extend(format!("{} 0 obj\n", number + 1).into_bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let (start, size) = (bytes.len(), objects.len() + 1);
    let trailer = format!(
        "xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R {entries} >>\nstartxref\n{start}\n%%EOF\n"
    );
    bytes.extend(trailer.into_bytes());
    bytes
}

fn object(text: impl Into<String>) -> Vec<u8> {
    text.into().into_bytes()
}

fn stream(entries: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("<< {entries} /Length {} >>\nstream\n", content.len()).into_bytes();
    bytes.extend(content);
    bytes.extend(b"\nendstream");
    bytes
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A page for each content; object 3 is the font `F1`, object 4 the first further object.
fn document(font: &str, contents: &[&[u8]], further: &[Vec<u8>]) -> Vec<u8> {
    let first_page = 4 + further.len();
    let kids: String = (0..contents.len()).map(|page| format!("{} 0 R ", first_page + 2 * page)).collect();
    let mut objects = vec![
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object(format!(
            "<< /Type /Pages /Count {} /Kids [{kids}] /Resources << /Font << /F1 3 0 R >> /XObject << /X1 4 0 R /X2 5 0 R >> >> >>",
            contents.len()
        )),
        object(font),
    ];
    objects.extend(further.iter().cloned());
    for (page, content) in contents.iter().enumerate() {
        objects.push(object(format!("<< /Type /Page /Parent 2 0 R /Contents {} 0 R >>", first_page + 2 * page + 1)));
        objects.push(stream("", content));
    }
    file(&objects)
}

const HELVETICA: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

fn texts(bytes: Vec<u8>) -> Vec<String> {
    pages(bytes, 1 << 20)
        .unwrap()
        .map(|page| page.map(|page| page.text).unwrap_or_else(|fault| format!("[{fault}]")))
        .collect()
}

fn refused(bytes: Vec<u8>) -> SkipReason {
    pages(bytes, 1 << 20).err().unwrap()
}

#[test]
fn pages_are_documents() {
    let contents: [&[u8]; 3] =
        [b"BT /F1 12 Tf 72 700 Td (One) Tj ET", b"0 0 m", b"BT /F1 12 Tf 72 700 Td (Two) Tj 0 -14 Td (caf\\351) Tj ET"];
    let found: Vec<_> = pages(document(HELVETICA, &contents, &[]), 1 << 20).unwrap().map(Result::unwrap).collect();
    assert_eq!(found.iter().map(|page| page.text.as_str()).collect::<Vec<_>>(), ["One", "Two\ncafé"]);
    let last = &found[1];
    assert_eq!(
        last.metadata,
        Metadata::from([("page".to_owned(), Value::Int(3)), ("pages".to_owned(), Value::Int(3))])
    );
    assert_eq!(last.title, None);
}

#[test]
fn titles_are_of_the_file() {
    let mut objects = vec![
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>"),
        object("<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>"),
        object(HELVETICA),
        stream("", b"BT /F1 12 Tf (text) Tj ET"),
    ];
    objects.push(object("<< /Title (The\\ntoller) >>"));
    let found = pages(file_with_trailer(&objects, "/Info 6 0 R"), 1 << 20).unwrap().next().unwrap().unwrap();
    assert_eq!(found.title.as_deref(), Some("The toller"));
    for (bytes, text) in [
        (&b"na\xefve \x85 \xa05"[..], "naïve – €5"),
        (b"\xfe\xff\x72\xd7\x00", "狗"),
        (b"\xef\xbb\xbf\xe7\x8b\x97", "狗"),
    ] {
        assert_eq!(text_string(bytes), text);
    }
}

#[test]
fn spaces_and_lines_follow_from_places() {
    let content = b"BT /F1 10 Tf 14 TL 1 0 0 1 72 700 Tm [(T) 80 (o) -10 (ll) -400 (er)] TJ T* (next) Tj (third) ' \
                    1 2 (fourth) \" /F1 5 Tf 4 Ts (th) Tj ET q 2 0 0 2 0 0 cm BT /F1 10 Tf 36 200 Td (large) Tj ET Q \
                    BT 36 200 Td (small) Tj ET";
    assert_eq!(texts(document(HELVETICA, &[content], &[])), ["Toll er\nnext\nthird\nfourthth\n\nlarge\n\nsmall"]);
}

#[test]
fn contents_may_be_packed_and_cut_into_streams() {
    let objects = [
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>"),
        object("<< /Type /Page /Parent 2 0 R /Contents [5 0 R 6 0 R] /Resources << /Font << /F1 4 0 R >> >> >>"),
        object(HELVETICA),
        stream("/Filter /FlateDecode", &deflated(b"BT /F1 12 Tf (packed) Tj")),
        stream("", b"( and cut) Tj ET"),
    ];
    assert_eq!(texts(file(&objects)), ["packed and cut"]);
}

#[test]
fn composite_fonts_have_character_maps() {
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [4 0 R] /ToUnicode 5 0 R >>";
    let further = [
        object("<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 500 /W [1 [600] 2 3 400] >>"),
        stream("", "1 beginbfchar <0001> <72D7> endbfchar 1 beginbfrange <0002> <0003> <0061> endbfrange".as_bytes()),
    ];
    let content = b"BT /F1 10 Tf <000100020003> Tj ET";
    assert_eq!(texts(document(font, &[content], &further)), ["狗ab"]);
}

#[test]
fn simple_fonts_have_differences_and_widths() {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /X /FirstChar 65 /Widths [100 100 100] \
                /Encoding << /Differences [65 /f_i /eacute 67 /uni0394] >> >>";
    let content = b"BT /F1 10 Tf (A) Tj 1 0 Td (B) Tj 4 0 Td (C) Tj ET";
    assert_eq!(texts(document(font, &[content], &[])), ["fié Δ"]);
}

#[test]
fn forms_are_drawn_and_images_are_not() {
    let further = [
        stream("/Type /XObject /Subtype /Form /Matrix [1 0 0 1 0 50]", b"BT /F1 12 Tf (form) Tj ET"),
        stream("/Type /XObject /Subtype /Image /Width 1 /Height 1", b"BT /F1 12 Tf (image) Tj ET"),
    ];
    let content = b"BT /F1 12 Tf (page) Tj ET /X1 Do /X2 Do BI /W 1 /H 1 ID (no) Tj\nEI\nBT 0 99 Td (after) Tj ET";
    assert_eq!(texts(document(HELVETICA, &[content], &further)), ["page\n\nform\n\nafter"]);
}

#[test]
fn forms_that_draw_themselves_end() {
    let twice = |name: &str| stream("/Type /XObject /Subtype /Form", format!("/{name} Do /{name} Do").as_bytes());
    let content = b"BT /F1 12 Tf (page) Tj ET /X1 Do";
    assert_eq!(texts(document(HELVETICA, &[content], &[twice("X2"), twice("X1")])), ["page"]);
    let many = "/X1 Do ".repeat(4000);
    let wide = stream("/Type /XObject /Subtype /Form", many.as_bytes());
    let found = texts(document(HELVETICA, &[content], &[wide.clone(), wide]));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("takes too much work"), "{found:?}");
}

#[test]
fn a_bomb_is_not_unpacked() {
    let zeros = deflated(&vec![b' '; 80 << 20]);
    let objects = [
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>"),
        object("<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"),
        stream("/Filter /FlateDecode", &zeros),
    ];
    assert!(texts(file(&objects))[0].contains("takes too much work"));
}

#[test]
fn text_is_bounded_over_all_pages() {
    let content: &[u8] = b"BT /F1 12 Tf (0123456789) Tj ET";
    let found: Vec<_> = pages(document(HELVETICA, &[content; 4], &[]), 25)
        .unwrap()
        .map(|page| page.map(|page| page.text).map_err(|fault| fault.to_string()))
        .collect();
    assert_eq!(found.len(), 3);
    let fault = found[2].as_ref().unwrap_err();
    assert!(fault.starts_with("page 3: its text is longer than 25 bytes"), "{fault}");
}

#[test]
fn files_without_text_or_pages_say_so() {
    assert!(matches!(refused(document(HELVETICA, &[b"0 0 m 5 5 l S"], &[])), SkipReason::PdfWithoutText));
    assert!(matches!(refused(document(HELVETICA, &[], &[])), SkipReason::PdfBroken { .. }));
}

#[test]
fn what_is_no_pdf_is_broken() {
    let whole = document(HELVETICA, &[b"BT /F1 12 Tf (One) Tj ET"], &[]);
    for bytes in [&b""[..], b"%PDF-1.7\n", b"text", &whole[..whole.len() / 2]] {
        let reason = refused(bytes.to_vec());
        assert!(matches!(reason, SkipReason::PdfBroken { .. }), "{reason}");
    }
}

#[test]
fn files_that_need_a_password_say_so() {
    let objects = [
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object("<< /Type /Pages /Count 0 /Kids [] >>"),
        object(format!(
            "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{}> /U <{}> >>",
            "00".repeat(32),
            "11".repeat(32)
        )),
    ];
    let id = "00".repeat(16);
    let reason = refused(file_with_trailer(&objects, &format!("/Encrypt 3 0 R /ID [<{id}> <{id}>]")));
    assert!(matches!(reason, SkipReason::PdfEncrypted), "{reason}");
}

#[test]
fn files_that_can_be_read_without_a_password_are_read() {
    let bytes = document(HELVETICA, &[b"BT /F1 12 Tf (One) Tj ET"], &[]);
    let encrypted = |user_password: &str| {
        let mut document = Document::load_mem(&bytes).unwrap();
        let id = Object::string_literal(vec![7; 16]);
        document.trailer.set("ID", Object::Array(vec![id.clone(), id]));
        let version = lopdf::EncryptionVersion::V2 {
            document: &document,
            owner_password: "owner",
            user_password,
            key_length: 128,
            permissions: lopdf::Permissions::all(),
        };
        let state = lopdf::EncryptionState::try_from(version).unwrap();
        document.encrypt(&state).unwrap();
        let mut saved = Vec::new();
        document.save_to(&mut saved).unwrap();
        saved
    };
    assert_eq!(texts(encrypted("")), ["One"]);
    let reason = refused(encrypted("secret"));
    assert!(matches!(reason, SkipReason::PdfEncrypted), "{reason}");
}

#[test]
fn deep_objects_and_page_trees_in_circles_do_no_harm() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let content: &[u8] = b"BT /F1 12 Tf (One) Tj ET";
    assert_eq!(texts(document(HELVETICA, &[content], &[object(deep)])), ["One"]);
    let circle = [
        object("<< /Type /Catalog /Pages 2 0 R >>"),
        object("<< /Type /Pages /Count 99999999999 /Kids [2 0 R 2 0 R 3 0 R] /Parent 2 0 R >>"),
        object("<< /Type /Page /Parent 2 0 R /Contents 3 0 R >>"),
    ];
    assert!(matches!(refused(file(&circle)), SkipReason::PdfWithoutText | SkipReason::PdfBroken { .. }));
}

#[test]
fn a_table_that_names_an_object_again_and_again_is_given_up() {
    let large = format!("9 0 obj\n[{}]\nendobj\n", "(0123456789) ".repeat(100_000));
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let place = bytes.len();
    bytes.extend(large.into_bytes());
    let start = bytes.len();
    let table: String = (0..2000).map(|_| format!("{place:010} 00000 n \n")).collect();
    bytes.extend(
        format!("xref\n0 2000\n{table}trailer\n<< /Size 2000 /Root 9 0 R >>\nstartxref\n{start}\n%%EOF\n").into_bytes(),
    );
    let started = std::time::Instant::now();
    assert!(matches!(refused(bytes), SkipReason::PdfTooComplex));
    assert!(started.elapsed().as_secs() < 20, "it stops after a few readings");
}
