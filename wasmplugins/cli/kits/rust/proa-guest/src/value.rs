//! Reading JSON without decoding it.

use alloc::borrow::Cow;
use alloc::string::String;

/// A JSON value that stays encoded. All methods of a missing one answer with
/// nothing, so lookups chain without checks.
#[derive(Clone, Copy, Default)]
pub struct Value<'a> {
    /// From the value to the end of the whole text; empty if it is missing.
    b: &'a [u8],
}

/// What [`Value::get`] takes: a key, or an array of keys.
pub trait Path {
    /// Walks down from a value.
    fn walk<'a>(&self, v: Value<'a>) -> Value<'a>;
}

impl<S: AsRef<str> + ?Sized> Path for &S {
    fn walk<'a>(&self, v: Value<'a>) -> Value<'a> {
        v.field(self.as_ref().as_bytes())
    }
}

impl<S: AsRef<str>, const N: usize> Path for [S; N] {
    fn walk<'a>(&self, v: Value<'a>) -> Value<'a> {
        self.iter().fold(v, |v, key| v.field(key.as_ref().as_bytes()))
    }
}

impl<'a> Value<'a> {
    /// Returns the first value in a text.
    pub fn parse<B: AsRef<[u8]> + ?Sized>(text: &'a B) -> Value<'a> {
        Value { b: space(text.as_ref()) }
    }

    fn first(&self) -> u8 {
        self.b.first().copied().unwrap_or(0)
    }

    /// Reports whether the value is not there. A null is there.
    pub fn missing(&self) -> bool {
        self.b.is_empty()
    }

    /// Reports whether the value is missing or null.
    pub fn is_null(&self) -> bool {
        self.missing() || self.first() == b'n'
    }

    /// Reports whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.first() == b'{'
    }

    /// Reports whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.first() == b'['
    }

    /// Reports whether the value is a string.
    pub fn is_string(&self) -> bool {
        self.first() == b'"'
    }

    /// Returns the JSON, empty for a missing value.
    pub fn raw(&self) -> &'a str {
        let rest = skip(self.b);
        core::str::from_utf8(&self.b[..self.b.len() - rest.len()]).unwrap_or("")
    }

    /// Returns the value at a key, or at a path of keys:
    /// `v.get(["metadata", "labels"])`.
    pub fn get<P: Path>(&self, path: P) -> Value<'a> {
        path.walk(*self)
    }

    fn field(self, key: &[u8]) -> Value<'a> {
        if !self.is_object() {
            return Value::default();
        }
        let mut i = self.iter();
        while let Some((k, v)) = i.step() {
            if k == key || k.len() > key.len() && k.contains(&b'\\') && unquote(k).as_bytes() == key {
                return v;
            }
        }
        Value::default()
    }

    /// Goes over the members of an object or the items of an array, of which
    /// the keys are empty.
    pub fn iter(&self) -> Iter<'a> {
        let is = self.is_object() || self.is_array();
        Iter { object: self.is_object(), rest: if is { &self.b[1..] } else { &[] } }
    }

    /// Goes over the items of an array.
    pub fn items(&self) -> impl Iterator<Item = Value<'a>> {
        self.iter().map(|(_, v)| v)
    }

    /// Returns the number of members or items.
    pub fn len(&self) -> usize {
        let mut i = self.iter();
        let mut n = 0;
        while i.step().is_some() {
            n += 1;
        }
        n
    }

    /// Reports whether there is no member or item.
    pub fn is_empty(&self) -> bool {
        self.iter().step().is_none()
    }

    /// Returns the content of a string, and nothing for other values.
    pub fn text(&self) -> Cow<'a, str> {
        unquote(self.content())
    }

    fn content(&self) -> &'a [u8] {
        if !self.is_string() {
            return &[];
        }
        let b = &self.b[1..];
        &b[..(b.len() - quoted(b).len()).saturating_sub(1)]
    }

    /// Reports whether the value is this string.
    pub fn is(&self, s: &str) -> bool {
        let c = self.content();
        self.is_string() && (c == s.as_bytes() && !c.contains(&b'\\') || c.contains(&b'\\') && unquote(c) == s)
    }

    /// Returns the value of true and false, and false for every other value.
    pub fn bool(&self) -> bool {
        self.first() == b't'
    }

    /// Returns the value of an integer.
    pub fn int(&self) -> Option<i64> {
        self.raw().parse().ok()
    }

    /// Returns the value of a number.
    pub fn float(&self) -> Option<f64> {
        match self.first() {
            b'-' | b'0'..=b'9' => self.raw().parse().ok(),
            _ => None,
        }
    }
}

/// The members of an object or the items of an array, with their keys.
pub struct Iter<'a> {
    object: bool,
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    /// Returns the next key, still escaped, and its value.
    fn step(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        let mut b = space(self.rest);
        let mut key: &[u8] = &[];
        if matches!(b.first(), None | Some(b'}' | b']')) {
            return None;
        }
        if self.object {
            if b[0] != b'"' {
                return None;
            }
            let behind = quoted(&b[1..]);
            key = &b[1..(b.len() - behind.len() - 1).max(1)];
            b = space(behind);
            if matches!(b.first(), None | Some(b'}')) {
                return None;
            }
        }
        self.rest = skip(b);
        Some((key, Value { b }))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Cow<'a, str>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|(k, v)| (unquote(k), v))
    }
}

fn space(b: &[u8]) -> &[u8] {
    let n = b.iter().take_while(|c| matches!(c, b' ' | b',' | b':' | b'\n' | b'\r' | b'\t')).count();
    &b[n..]
}

/// Returns what is behind a string, b being behind its quote.
fn quoted(b: &[u8]) -> &[u8] {
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'"' => return &b[i + 1..],
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    &[]
}

/// Returns what is behind a value.
fn skip(mut b: &[u8]) -> &[u8] {
    let mut depth = 0;
    while let Some((c, rest)) = b.split_first() {
        b = rest;
        match c {
            b'"' => b = quoted(b),
            b'{' | b'[' => {
                depth += 1;
                continue;
            }
            b'}' | b']' => depth -= 1,
            _ if depth == 0 => {
                let n = b.iter().take_while(|c| !matches!(c, b',' | b'}' | b']' | 0..=b' ')).count();
                b = &b[n..];
            }
            _ => {}
        }
        if depth <= 0 {
            return b;
        }
    }
    b
}

fn hex4(b: &[u8]) -> u32 {
    b.get(..4).and_then(|b| core::str::from_utf8(b).ok()).and_then(|s| u32::from_str_radix(s, 16).ok()).unwrap_or(0xfffd)
}

/// Decodes a string without its quotes.
fn unquote(b: &[u8]) -> Cow<'_, str> {
    let text = core::str::from_utf8(b).unwrap_or("");
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let c = chars.next().unwrap_or('\\');
        rest = chars.as_str();
        out.push(match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut u = hex4(rest.as_bytes());
                rest = rest.get(4..).unwrap_or("");
                if (0xd800..0xdc00).contains(&u) && rest.starts_with("\\u") {
                    let low = hex4(&rest.as_bytes()[2..]);
                    if (0xdc00..0xe000).contains(&low) {
                        u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
                        rest = rest.get(6..).unwrap_or("");
                    }
                }
                char::from_u32(u).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other,
        });
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let v = Value::parse(r#" { "a" : {"b":[1, -2.5e1 ,"x\"\u00e9\ud83d\ude00\n", null,true , {}]}, "k\u0065y":"v", "none":[] } "#);
        let items: alloc::vec::Vec<_> = v.get(["a", "b"]).items().collect();
        assert_eq!(items.len(), 6);
        assert_eq!(v.get(["a", "b"]).len(), 6);
        assert_eq!((items[0].int(), items[1].int(), items[1].float()), (Some(1), None, Some(-25.0)));
        assert_eq!(items[2].text(), "x\"é😀\n");
        assert!(items[2].is("x\"é😀\n") && items[3].is_null() && !items[3].missing() && items[4].bool() && items[5].is_empty());
        assert!(v.get("key").is("v") && v.get("none").is_array() && v.get("none").is_empty());
        assert!(v.get(["a", "nothing", "more"]).missing() && v.get(["key", "x"]).missing() && Value::default().get("x").is_null());
        assert_eq!(v.get("a").raw(), r#"{"b":[1, -2.5e1 ,"x\"\u00e9\ud83d\ude00\n", null,true , {}]}"#);
    }

    #[test]
    fn broken_json_ends_early() {
        for s in [r#"{"a"#, r#"{"a":"#, "[1", "\\", r#"{"a"}"#, "[,]", r#"{"a":"\"#, r#""\u12"#, "{\"\\", "{\""] {
            let v = Value::parse(s);
            let _ = (v.len(), v.get("a").text().len(), v.text().len(), v.raw().len(), v.int(), v.float(), v.get(["a", "b"]).len());
        }
    }
}
