//! The document in `docs/` is the one that the code makes.

use std::path::Path;

#[test]
fn the_committed_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut made = paddock_api::openapi()
        .to_pretty_json()
        .expect("the document is JSON");
    made.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, &made).expect("docs/openapi.json can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = committed
        .lines()
        .zip(made.lines())
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| committed.lines().count().min(made.lines().count()));
    assert!(
        committed == made,
        "docs/openapi.json differs from the code at line {}: if the change of the API is meant, \
         run `UPDATE_OPENAPI=1 cargo nextest run -p paddock-api openapi` and commit the file",
        first + 1
    );
}

#[test]
fn every_endpoint_has_one_name_and_one_path() {
    let mut seen = std::collections::BTreeSet::new();
    for endpoint in paddock_api::ENDPOINTS {
        assert!(seen.insert(endpoint.id), "{} twice", endpoint.id);
        assert!(seen.insert(endpoint.path), "{} twice", endpoint.path);
    }
}

#[test]
fn every_schema_that_is_named_is_there() {
    let document = serde_json::to_value(paddock_api::openapi()).expect("the document is JSON");
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("there are schemas");
    let mut todo = vec![&document];
    while let Some(value) = todo.pop() {
        match value {
            serde_json::Value::Object(map) => {
                if let Some(name) = map
                    .get("$ref")
                    .and_then(|r| r.as_str()?.strip_prefix("#/components/schemas/"))
                {
                    assert!(schemas.contains_key(name), "{name} is nowhere");
                }
                todo.extend(map.values());
            }
            serde_json::Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
}
