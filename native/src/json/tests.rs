use super::*;

fn is_valid(text: &[u8]) -> bool {
    let read = |text| {
        let mut reader = Reader::new(text)?;
        reader.skip()?;
        reader.finish()
    };
    read(text).is_ok()
}

fn decoded(text: &str) -> Read<Vec<u8>> {
    let mut reader = Reader::new(text.as_bytes())?;
    let found = reader.text()?.into_owned();
    reader.finish().map(|()| found)
}

#[test]
fn accepts_what_the_standard_allows() {
    for text in [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "10.5e-3",
        "1E+9",
        "\"\"",
        "[]",
        "{}",
        "\t[1,\r\n2]",
        r#"{"a":{"b":[{}]},"a":1}"#,
        r#""\u00e9\ud83d\ude00\/""#,
        "\"\u{7f}\u{e9}\"",
    ] {
        assert!(is_valid(text.as_bytes()), "{text}");
    }
}

#[test]
fn refuses_everything_else() {
    for text in [
        "",
        " ",
        "nul",
        "nullx",
        "True",
        "NaN",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "1e+",
        "0x1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[",
        "]",
        "{",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        "{1:1}",
        r#"{"a" 1}"#,
        "\"",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\ud800""#,
        r#""\udc00""#,
        "[1]]",
        "1 2",
        r#""\ud800\u0041""#,
        r#""\ud800\ud800""#,
        "\"\n\"",
        "\"\0\"",
        "\u{feff}1",
        "[1}",
        "{]",
        r#"{"\ud800":1}"#,
        r#""\"#,
        r#""\u00"#,
        "\u{a0}1",
        "\u{c}1",
    ] {
        assert!(!is_valid(text.as_bytes()), "{text:?}");
    }
}

#[test]
fn refuses_what_is_not_utf8() {
    for text in [
        &b"\"\xff\""[..],
        b"\"\xed\xa0\x80\"",
        b"\"\xc0\x80\"",
        b"[\"\xe9\"]",
    ] {
        assert!(!is_valid(text));
    }
}

#[test]
fn limits_the_depth() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(is_valid(nested(64).as_bytes()));
    assert!(!is_valid(nested(65).as_bytes()));
    let wide = format!("[{}]", vec![nested(63); 3].join(","));
    assert!(is_valid(wide.as_bytes()));
}

#[test]
fn decodes_escapes() {
    assert_eq!(decoded(r#""\u0030x1""#).unwrap(), b"0x1");
    assert_eq!(
        decoded(r#""a\"\\\/\b\f\n\r\tz""#).unwrap(),
        b"a\"\\/\x08\x0c\n\r\tz"
    );
    assert_eq!(
        decoded(r#""\ud83d\ude00\u00E9""#).unwrap(),
        "😀é".as_bytes()
    );
    assert!(decoded("5").is_err());
}

#[test]
fn finds_special_characters_at_any_distance() {
    for length in 0..100 {
        let plain = "a".repeat(length);
        assert_eq!(decoded(&format!("\"{plain}\"")).unwrap(), plain.as_bytes());
        assert_eq!(
            decoded(&format!("\"{plain}\\n\"")).unwrap(),
            (plain.clone() + "\n").as_bytes()
        );
        assert!(decoded(&format!("\"{plain}\x01\"")).is_err());
    }
}

#[test]
fn returns_the_bytes_of_a_value() {
    let mut reader = Reader::new(br#"[ {"a" : [1, 2.0]} , 5]"#).unwrap();
    assert!(reader.open_list().unwrap());
    assert_eq!(reader.raw().unwrap(), br#"{"a" : [1, 2.0]}"#);
    assert!(reader.more_items().unwrap());
    assert_eq!(reader.raw().unwrap(), b"5");
    assert!(!reader.more_items().unwrap());
}

#[test]
fn writes_one_notation() {
    let mut out = Vec::new();
    write_text(
        &mut out,
        "a\"\\\u{8}\t\n\u{c}\r\u{1}\u{1f}/\u{7f}é".as_bytes(),
    );
    assert_eq!(
        out,
        "\"a\\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u001f/\u{7f}é\"".as_bytes()
    );
}
