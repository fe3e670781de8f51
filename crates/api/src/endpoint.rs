//! Every endpoint of the API, in one table: the document is made from it, the router is checked
//! against it, and so is the list of those that are tested for authorisation.

use paddock_types::job::JobRecord;
use paddock_types::step::{StepRecord, ValidationRecord};
use paddock_types::trajectory::TrajectorySummary;
use paddock_types::verdict::CallRecord;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::openapi::{Answer, list_of, one, page_of};
use crate::query::{
    CallQuery, JobQuery, LogQuery, MetricQuery, TrajectoryOptions, TrajectoryQuery,
};
use crate::resource::{Health, LogEntry, MetricSeries, TrajectoryDetail, Version};
use crate::{Code, path};

/// One `GET` endpoint.
pub struct Endpoint {
    /// Its name in the document; the client's method bears it too.
    pub id: &'static str,
    /// Its path, with ids in braces.
    pub path: &'static str,
    /// What it gives.
    pub summary: &'static str,
    /// Errors it can answer with, besides those that all can.
    pub errors: &'static [Code],
    pub(crate) parameters: fn() -> Vec<Parameter>,
    pub(crate) answer: fn() -> Answer,
}

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        id: "health",
        path: path::HEALTH,
        summary: "whether the server can answer",
        errors: &[Code::Unavailable],
        parameters: Vec::new,
        answer: one::<Health>,
    },
    Endpoint {
        id: "version",
        path: path::VERSION,
        summary: "which version answers",
        errors: &[],
        parameters: Vec::new,
        answer: one::<Version>,
    },
    Endpoint {
        id: "openapi",
        path: path::OPENAPI,
        summary: "this document",
        errors: &[],
        parameters: Vec::new,
        answer: Answer::any,
    },
    Endpoint {
        id: "jobs",
        path: path::JOBS,
        summary: "jobs, newest first",
        errors: &[Code::InvalidRequest],
        parameters: query::<JobQuery>,
        answer: page_of::<JobRecord>,
    },
    Endpoint {
        id: "job",
        path: path::JOB,
        summary: "a job; the values of its plugins' envs are masked",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: Vec::new,
        answer: one::<JobRecord>,
    },
    Endpoint {
        id: "steps",
        path: path::JOB_STEPS,
        summary: "a job's steps, in order",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: Vec::new,
        answer: list_of::<StepRecord>,
    },
    Endpoint {
        id: "validations",
        path: path::JOB_VALIDATIONS,
        summary: "a job's passes over the validation set, in order",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: Vec::new,
        answer: list_of::<ValidationRecord>,
    },
    Endpoint {
        id: "trajectories",
        path: path::JOB_TRAJECTORIES,
        summary: "a job's trajectories without their conversations",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: query::<TrajectoryQuery>,
        answer: page_of::<TrajectorySummary>,
    },
    Endpoint {
        id: "calls",
        path: path::JOB_CALLS,
        summary: "a job's calls, an item an attempt",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: query::<CallQuery>,
        answer: page_of::<CallRecord>,
    },
    Endpoint {
        id: "logs",
        path: path::JOB_LOGS,
        summary: "a job's log lines",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: query::<LogQuery>,
        answer: page_of::<LogEntry>,
    },
    Endpoint {
        id: "metrics",
        path: path::JOB_METRICS,
        summary: "a job's measured numbers, by plugin and name",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: query::<MetricQuery>,
        answer: list_of::<MetricSeries>,
    },
    Endpoint {
        id: "trajectory",
        path: path::TRAJECTORY,
        summary: "a trajectory, whole",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: query::<TrajectoryOptions>,
        answer: one::<TrajectoryDetail>,
    },
    Endpoint {
        id: "trajectory_calls",
        path: path::TRAJECTORY_CALLS,
        summary: "all attempts made for a trajectory, its group graders' among them",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: Vec::new,
        answer: list_of::<CallRecord>,
    },
    Endpoint {
        id: "call",
        path: path::CALL,
        summary: "a call: all its attempts, in order",
        errors: &[Code::InvalidRequest, Code::NotFound],
        parameters: Vec::new,
        answer: list_of::<CallRecord>,
    },
];

impl Endpoint {
    /// The names of the ids in its path.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

fn query<T: IntoParams>() -> Vec<Parameter> {
    T::into_params(|| Some(ParameterIn::Query))
}
