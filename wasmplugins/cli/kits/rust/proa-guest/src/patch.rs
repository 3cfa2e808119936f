//! Changes of an object.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write;

use crate::value::Value;

/// Encoded JSON.
pub struct Json<S: AsRef<str>>(pub S);

/// What can stand in a patch: text, numbers, bools, slices of text, a
/// [`Value`] and [`Json`].
pub trait ToJson {
    /// Appends the value as JSON.
    fn to_json(&self, out: &mut String);
}

impl ToJson for str {
    fn to_json(&self, out: &mut String) {
        out.push('"');
        for c in self.chars() {
            match c {
                '"' | '\\' => {
                    out.push('\\');
                    out.push(c);
                }
                '\0'..='\x1f' => {
                    let _ = write!(out, "\\u{:04x}", c as u32); // a String takes all
                }
                _ => out.push(c),
            }
        }
        out.push('"');
    }
}

impl ToJson for String {
    fn to_json(&self, out: &mut String) {
        self.as_str().to_json(out)
    }
}

impl ToJson for Cow<'_, str> {
    fn to_json(&self, out: &mut String) {
        self.as_ref().to_json(out)
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self, out: &mut String) {
        (**self).to_json(out)
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self, out: &mut String) {
        out.push('[');
        for (i, v) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            v.to_json(out);
        }
        out.push(']');
    }
}

impl ToJson for bool {
    fn to_json(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" })
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl ToJson for $t {
            fn to_json(&self, out: &mut String) {
                let _ = write!(out, "{}", self); // a String takes all
            }
        }
    )*};
}
numbers!(i32 i64 u32 u64 usize);

impl ToJson for Value<'_> {
    fn to_json(&self, out: &mut String) {
        out.push_str(if self.missing() { "null" } else { self.raw() })
    }
}

impl<S: AsRef<str>> ToJson for Json<S> {
    fn to_json(&self, out: &mut String) {
        out.push_str(self.0.as_ref())
    }
}

/// A list of changes as RFC 6902 has them.
#[derive(Default)]
pub struct Patch(pub(crate) String);

impl Patch {
    /// An empty patch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the member at path, or inserts before an array's element; the
    /// element `-` is behind the last.
    pub fn add(&mut self, path: &str, value: impl ToJson) -> &mut Self {
        self.op("add", path, Some(&value))
    }

    /// Replaces what is at path.
    pub fn replace(&mut self, path: &str, value: impl ToJson) -> &mut Self {
        self.op("replace", path, Some(&value))
    }

    /// Makes the whole patch fail unless the value is at path.
    pub fn test(&mut self, path: &str, value: impl ToJson) -> &mut Self {
        self.op("test", path, Some(&value))
    }

    /// Removes what is at path.
    pub fn remove(&mut self, path: &str) -> &mut Self {
        self.op("remove", path, None)
    }

    /// Reports whether the patch has no operation.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn op(&mut self, op: &str, path: &str, value: Option<&dyn ToJson>) -> &mut Self {
        self.0.push_str(if self.0.is_empty() { r#"[{"op":""# } else { r#",{"op":""# });
        self.0.push_str(op);
        self.0.push_str(r#"","path":"#);
        path.to_json(&mut self.0);
        if let Some(value) = value {
            self.0.push_str(r#","value":"#);
            value.to_json(&mut self.0);
        }
        self.0.push('}');
        self
    }
}

/// Makes a JSON pointer of its parts.
pub fn pointer<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let mut s = String::new();
    for part in parts {
        s.push('/');
        for c in part.as_ref().chars() {
            match c {
                '~' => s.push_str("~0"),
                '/' => s.push_str("~1"),
                _ => s.push(c),
            }
        }
    }
    s
}
