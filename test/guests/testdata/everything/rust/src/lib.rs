//! A plugin that uses everything of its kit.

use proa_guest::{allow, change, deny, info, pointer, Answer, Json, Patch, Request, ToJson, Value};

proa_guest::on_admit!(admit);

fn admit(r: &Request) -> Answer {
    let what = r.object().get("do").text();
    info(&["asked to ", &what].concat());
    match &*what {
        "read" => read(r),
        "patch" => {
            let mut p = Patch::new();
            p.add(&pointer(["metadata", "labels", "a/b~c"]), r.settings().get("text")).test("/list/0", 1).add("/list/1", 7);
            p.add("/list/-", r.object().get(["metadata", "labels"])).remove("/gone").replace("/same", Json(r#"{"json":true}"#));
            change(p).warn("careful \"é\"").warn("second").annotate("k", "v\n")
        }
        "object" => Answer { object: r#"{"whole":true}"#.into(), ..allow() },
        "echo" => {
            let mut object = String::from("{\"value\":");
            echo(r.object().get("value"), &mut object);
            object.push('}');
            Answer { object, ..allow() }
        }
        "host" => host(r),
        _ => allow(),
    }
}

fn read(r: &Request) -> Answer {
    let list = r.object().get("kéy\"");
    let mut items = [Value::default(); 6];
    for (i, v) in list.items().enumerate() {
        items[i] = v;
    }
    let words = [
        r.operation().into_owned(),
        r.kind().into_owned(),
        r.resource().into_owned(),
        r.sub_resource().into_owned(),
        r.namespace().into_owned(),
        r.name().into_owned(),
        r.username().into_owned(),
        if r.dry_run() { "dry" } else { "wet" }.into(),
        if r.mutate() { "mutate" } else { "validate" }.into(),
        if r.old_object().missing() { "none".into() } else { r.old_object().get("text").text().into_owned() },
        r.object().get("text").text().into_owned(),
        list.len().to_string(),
        r.object().get("empty").len().to_string(),
        items[0].int().map_or("-".into(), |n| n.to_string()),
        if items[2].missing() { "missing" } else if items[2].is_null() { "null" } else { "something" }.into(),
        items[3].bool().to_string(),
        items[5].text().into_owned(),
        if r.object().get(["none", "at", "all"]).is_null() { "absent" } else { "there" }.into(),
    ];
    let a = deny(words.join(" "));
    if items[1].float() == Some(-25.0) {
        return Answer { code: 422, reason: "Invalid".into(), ..a };
    }
    a
}

fn host(r: &Request) -> Answer {
    let namespace = r.namespace();
    let ok = |v: Result<Value<'static>, String>| v.unwrap_or_default();
    let random = ok(proa_guest::random(2)).get("base64").text().len() / 2; // with a padding
    deny(
        [
            ok(proa_guest::kube_get("apps", "v1", "deployments", &namespace, "web")).get(["metadata", "name"]).text().into_owned(),
            ok(proa_guest::kube_list("", "v1", "pods", "", "a=b")).get("items").len().to_string(),
            if proa_guest::can_i("delete", "", "pods", &namespace, "") { "yes" } else { "no" }.into(),
            proa_guest::now().unwrap_or(0).to_string(),
            random.to_string(),
            ok(proa_guest::config(&namespace, "c")).get(["data", "k"]).text().into_owned(),
            ok(proa_guest::http("GET", "https://a.test")).get("status").int().unwrap_or(0).to_string(),
            proa_guest::call("own", r#"{"x":1}"#).err().unwrap_or_default(),
        ]
        .join(" "),
    )
}

/// Puts a value together again, piece by piece.
fn echo(v: Value, out: &mut String) {
    if v.is_object() || v.is_array() {
        let object = v.is_object();
        out.push(if object { '{' } else { '[' });
        for (i, (key, value)) in v.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            if object {
                key.to_json(out);
                out.push(':');
            }
            echo(value, out);
        }
        out.push(if object { '}' } else { ']' });
    } else if v.is_string() {
        v.text().to_json(out);
    } else if let Some(n) = v.int() {
        n.to_json(out);
    } else {
        out.push_str(v.raw());
    }
}
