//! Requests and answers of admission.

use alloc::borrow::Cow;
use alloc::string::String;

use crate::patch::{Patch, ToJson};
use crate::value::{Path, Value};

/// A write on its way to storage.
pub struct Request<'a> {
    v: Value<'a>,
    all: Value<'a>, // an AdmissionRequest of admission.k8s.io/v1
}

impl<'a> Request<'a> {
    /// Reads a request as the server sends it:
    /// `{"phase":"mutate","settings":{},"request":{"operation":"CREATE","object":{}}}`.
    pub fn new(v: Value<'a>) -> Self {
        Request { v, all: v.get("request") }
    }

    /// Reports whether the answer may change the object.
    pub fn mutate(&self) -> bool {
        self.v.get("phase").is("mutate")
    }

    /// The binding's spec.settings.
    pub fn settings(&self) -> Value<'a> {
        self.v.get("settings")
    }

    /// The new object, missing on DELETE.
    pub fn object(&self) -> Value<'a> {
        there(self.all.get("object"))
    }

    /// The stored object, missing on CREATE.
    pub fn old_object(&self) -> Value<'a> {
        there(self.all.get("oldObject"))
    }

    /// A field of the AdmissionRequest by its path.
    pub fn field<P: Path>(&self, path: P) -> Value<'a> {
        self.all.get(path)
    }

    /// CREATE, UPDATE, DELETE or CONNECT.
    pub fn operation(&self) -> Cow<'a, str> {
        self.all.get("operation").text()
    }

    /// The object's kind.
    pub fn kind(&self) -> Cow<'a, str> {
        self.all.get(["kind", "kind"]).text()
    }

    /// The plural of the resource.
    pub fn resource(&self) -> Cow<'a, str> {
        self.all.get(["resource", "resource"]).text()
    }

    /// The subresource, or nothing.
    pub fn sub_resource(&self) -> Cow<'a, str> {
        self.all.get("subResource").text()
    }

    /// The object's namespace.
    pub fn namespace(&self) -> Cow<'a, str> {
        self.all.get("namespace").text()
    }

    /// The object's name, which can be empty on CREATE.
    pub fn name(&self) -> Cow<'a, str> {
        self.all.get("name").text()
    }

    /// Who asks.
    pub fn username(&self) -> Cow<'a, str> {
        self.all.get(["userInfo", "username"]).text()
    }

    /// Reports whether the write will not be stored.
    pub fn dry_run(&self) -> bool {
        self.all.get("dryRun").bool()
    }
}

fn there(v: Value<'_>) -> Value<'_> {
    if v.is_null() {
        return Value::default();
    }
    v
}

/// What becomes of a request.
#[derive(Default)]
pub struct Answer {
    /// Whether the request passes.
    pub allowed: bool,
    /// When refused: what the user is shown.
    pub message: String,
    /// When refused: the HTTP status; 0 is 403.
    pub code: i32,
    /// When refused: the reason of the status.
    pub reason: String,
    /// Changes the object.
    pub patch: Patch,
    /// The whole object as JSON, instead of a patch.
    pub object: String,
    #[doc(hidden)]
    pub warnings: String,
    #[doc(hidden)]
    pub annotations: String,
}

/// Lets the request pass.
pub fn allow() -> Answer {
    Answer { allowed: true, ..Default::default() }
}

/// Refuses the request with status 403.
pub fn deny(message: impl Into<String>) -> Answer {
    Answer { message: message.into(), ..Default::default() }
}

/// Lets the request pass with changes.
pub fn change(patch: Patch) -> Answer {
    Answer { allowed: true, patch, ..Default::default() }
}

impl Answer {
    /// Adds a warning for the user.
    pub fn warn(mut self, text: &str) -> Self {
        if !self.warnings.is_empty() {
            self.warnings.push(',');
        }
        text.to_json(&mut self.warnings);
        self
    }

    /// Adds an audit annotation.
    pub fn annotate(mut self, key: &str, value: &str) -> Self {
        if !self.annotations.is_empty() {
            self.annotations.push(',');
        }
        key.to_json(&mut self.annotations);
        self.annotations.push(':');
        value.to_json(&mut self.annotations);
        self
    }

    /// The answer as the server gets it; an empty one lets the request pass.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        if self.allowed {
            if self.patch.is_empty() && self.object.is_empty() && self.warnings.is_empty() && self.annotations.is_empty() {
                return out;
            }
            out.push_str(r#"{"allowed":true"#);
        } else {
            out.push_str(r#"{"allowed":false,"status":{"message":"#);
            self.message.to_json(&mut out);
            if self.code != 0 {
                out.push_str(r#","code":"#);
                self.code.to_json(&mut out);
            }
            if !self.reason.is_empty() {
                out.push_str(r#","reason":"#);
                self.reason.to_json(&mut out);
            }
            out.push('}');
        }
        for (name, text, end) in [
            (r#","warnings":["#, &self.warnings, "]"),
            (r#","auditAnnotations":{"#, &self.annotations, "}"),
            (r#","patch":"#, &self.patch.0, "]"),
            (r#","object":"#, &self.object, ""),
        ] {
            if !text.is_empty() {
                out.push_str(name);
                out.push_str(text);
                out.push_str(end);
            }
        }
        out.push('}');
        out
    }

    #[doc(hidden)]
    pub fn invalid(message: &str) -> String {
        let mut out = String::from(r#"{"valid":false,"message":"#);
        message.to_json(&mut out);
        out.push('}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{pointer, Json};

    #[test]
    fn answers() {
        assert_eq!(allow().encode(), "");
        let mut p = Patch::new();
        p.add(&pointer(["metadata", "labels", "a/b~c"]), "\"quoted\"").replace("/x", &["a", "b"][..]).remove("/y").test("/n", 5).add("/r", Json("{}"));
        assert_eq!(
            change(p).warn("careful").annotate("k", "v").encode(),
            concat!(
                r#"{"allowed":true,"warnings":["careful"],"auditAnnotations":{"k":"v"},"patch":["#,
                r#"{"op":"add","path":"/metadata/labels/a~1b~0c","value":"\"quoted\""},{"op":"replace","path":"/x","value":["a","b"]},"#,
                r#"{"op":"remove","path":"/y"},{"op":"test","path":"/n","value":5},{"op":"add","path":"/r","value":{}}]}"#
            )
        );
        let a = Answer { code: 422, reason: "Invalid".into(), ..deny("no \x01") };
        assert_eq!(a.encode(), r#"{"allowed":false,"status":{"message":"no \u0001","code":422,"reason":"Invalid"}}"#);
    }

    #[test]
    fn requests() {
        let r = Request::new(Value::parse(r#"{"phase":"mutate","settings":{"s":1},"request":{"operation":"UPDATE","kind":{"kind":"Pod"},"name":"n","object":{"a":1},"oldObject":null}}"#));
        assert!(r.mutate() && r.old_object().missing() && r.object().get("a").int() == Some(1) && r.settings().get("s").int() == Some(1));
        assert_eq!((r.operation(), r.kind(), r.name(), r.namespace()), ("UPDATE".into(), "Pod".into(), "n".into(), "".into()));
    }
}
