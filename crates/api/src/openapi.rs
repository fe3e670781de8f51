//! The OpenAPI document, made from the table of endpoints.

use paddock_types::{CallId, JobId, TrajectoryId};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, Ref, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::{Code, ENDPOINTS, Endpoint, PROBLEM_JSON, Problem};

type Named = Vec<(String, RefOr<Schema>)>;

/// The schema of an answer, and the schemas it names.
pub(crate) struct Answer {
    schema: RefOr<Schema>,
    named: Named,
}

impl Answer {
    /// Any object.
    pub(crate) fn any() -> Self {
        Self {
            schema: ObjectBuilder::new().schema_type(Type::Object).into(),
            named: Vec::new(),
        }
    }
}

/// One item.
pub(crate) fn one<T: ToSchema>() -> Answer {
    let mut named = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut named);
    Answer {
        schema: Ref::from_schema_name(T::name()).into(),
        named,
    }
}

/// All items of a list.
pub(crate) fn list_of<T: ToSchema>() -> Answer {
    let one = one::<T>();
    Answer {
        schema: ArrayBuilder::new().items(one.schema).into(),
        ..one
    }
}

/// A page of a list.
pub(crate) fn page_of<T: ToSchema>() -> Answer {
    let list = list_of::<T>();
    let next = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .description(Some(
            "`after` of the next page; null at the end of the list",
        ));
    let page = ObjectBuilder::new()
        .property("items", list.schema)
        .required("items")
        .property("next", next)
        .required("next");
    Answer {
        schema: page.into(),
        named: list.named,
    }
}

/// The document.
pub fn openapi() -> OpenApi {
    let mut components = ComponentsBuilder::new().security_scheme(
        "token",
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    let mut paths = PathsBuilder::new();
    let mut named: Named = vec![
        (Code::name().into_owned(), Code::schema()),
        (Problem::name().into_owned(), Problem::schema()),
    ];
    for endpoint in ENDPOINTS {
        let answer = (endpoint.answer)();
        named.extend(answer.named);
        let operation = operation(endpoint, answer.schema);
        paths = paths.path(endpoint.path, PathItem::new(HttpMethod::Get, operation));
    }
    for (name, schema) in named {
        components = components.schema(name, schema);
    }
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Paddock")
                .version("v1")
                .description(Some(
                    "What a Paddock server knows of its jobs. Every request bears a token.",
                )),
        )
        .paths(paths)
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new(
            "token",
            Vec::<String>::new(),
        )]))
        .build()
}

fn operation(endpoint: &Endpoint, answer: RefOr<Schema>) -> OperationBuilder {
    let ok = ResponseBuilder::new()
        .description(endpoint.summary)
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(answer)).build(),
        );
    let mut operation = OperationBuilder::new()
        .operation_id(Some(endpoint.id))
        .summary(Some(endpoint.summary))
        .response("200", ok);
    for id in endpoint.ids() {
        operation = operation.parameter(id_parameter(id));
    }
    for parameter in (endpoint.parameters)() {
        operation = operation.parameter(parameter);
    }
    let always = [Code::Unauthorized, Code::Internal];
    for &code in always.iter().chain(endpoint.errors) {
        operation = operation.response(code.status().to_string(), problem(code));
    }
    operation
}

fn id_parameter(name: &str) -> Parameter {
    let schema = match name {
        "job" => JobId::schema(),
        "trajectory" => TrajectoryId::schema(),
        _ => CallId::schema(),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(format!("the {name}'s id")))
        .schema(Some(schema))
        .build()
}

fn problem(code: Code) -> Response {
    let schema: RefOr<Schema> = Ref::from_schema_name(Problem::name()).into();
    ResponseBuilder::new()
        .description(code.title())
        .content(
            PROBLEM_JSON,
            ContentBuilder::new().schema(Some(schema)).build(),
        )
        .build()
}
