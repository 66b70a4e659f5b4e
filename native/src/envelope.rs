//! Split a JSON-RPC answer into the results that it carries.
//!
//! `gapless.providers.envelope` defines what an answer means, and reads those that this module
//! leaves to it: those that are invalid, carry an error, lack or repeat a member, or have an id that
//! is not a number which Gapless would send.

use std::ops::Range;

use crate::json::{Fault, Read, Reader};

/// An id, and where its result is in the body.
pub type Found = (u64, Range<usize>);

/// Return all results in a body, which is one answer or a list; nothing if Python has to read it.
pub fn split(body: &[u8]) -> Option<Vec<Found>> {
    read(body).ok()
}

fn read(body: &[u8]) -> Read<Vec<Found>> {
    let mut json = Reader::new(body)?;
    let mut found = Vec::new();
    if json.peek() == b'[' {
        let mut more = json.open_list()?;
        while more {
            found.push(answer(&mut json, body.len())?);
            more = json.more_items()?;
        }
    } else {
        found.push(answer(&mut json, body.len())?);
    }
    json.finish()?;
    Ok(found)
}

fn answer(json: &mut Reader<'_>, length: usize) -> Read<Found> {
    let (mut id, mut result) = (None, None);
    let mut more = json.open_object()?;
    while more {
        match json.key()?.as_ref() {
            b"id" => once(&mut id, number(json.raw()?)?)?,
            b"result" => once(&mut result, place(json, length)?)?,
            b"error" | b"Error" if json.null()? => {}
            b"error" | b"Error" => return Err(unsure()),
            _ => json.skip()?,
        }
        more = json.more_members()?;
    }
    id.zip(result).ok_or_else(unsure)
}

fn place(json: &mut Reader<'_>, length: usize) -> Read<Range<usize>> {
    let value = json.raw()?;
    let end = length - json.rest().len();
    Ok(end - value.len()..end)
}

fn once<T>(member: &mut Option<T>, value: T) -> Read<()> {
    match member.replace(value) {
        None => Ok(()),
        Some(_) => Err(unsure()),
    }
}

/// An id as Gapless writes it. The digits are a valid number, so they have no leading zero.
fn number(digits: &[u8]) -> Read<u64> {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    text.parse().map_err(|_| unsure())
}

#[cold]
fn unsure() -> Fault {
    Fault::new("this is for Python to read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(body: &str) -> Option<Vec<(u64, &str)>> {
        let found = split(body.as_bytes())?.into_iter();
        Some(found.map(|(id, place)| (id, &body[place])).collect())
    }

    #[test]
    fn results_are_found_in_any_order() {
        let body = r#" [ {"id":2,"result": [1, {"id":7}] ,"x":{}}, {"result":"\u00e9","id":0}]"#;
        let expected = vec![(2, r#"[1, {"id":7}]"#), (0, r#""\u00e9""#)];
        assert_eq!(results(body), Some(expected));
        assert_eq!(results("[]"), Some(vec![]));
    }

    #[test]
    fn an_object_is_a_single_answer() {
        let body = r#"{"id":3,"result":null,"error":null}"#;
        assert_eq!(results(body), Some(vec![(3, "null")]));
    }

    #[test]
    fn what_is_unusual_is_left_to_python() {
        for body in [
            r#"{"id":"1","result":1}"#,
            r#"{"id":1.0,"result":1}"#,
            r#"{"id":-1,"result":1}"#,
            r#"{"id":18446744073709551616,"result":1}"#,
            r#"{"id":null,"result":1}"#,
            r#"{"result":1}"#,
            r#"{"id":1}"#,
            r#"{"id":1,"result":1,"error":{}}"#,
            r#"{"id":1,"result":1,"Error":""}"#,
            r#"{"id":1,"result":1,"result":2}"#,
            r#"{"id":1,"id":1,"result":2}"#,
            r#"{"id":1,"result":[1,]}"#,
            r#"{"id":1,"result":1} 2"#,
            r#"[{"id":1,"result":1}"#,
            "[1]",
            "1",
            "",
        ] {
            assert_eq!(results(body), None, "{body}");
        }
        assert_eq!(split(b"{\"id\":1,\"result\":\"\xff\"}"), None);
    }
}
