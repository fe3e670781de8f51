//! What every backend of the store must do. A backend's test file gives a function that opens a
//! fresh store, and names it to [`suite!`].

pub(crate) mod calls;
pub(crate) mod fixtures;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod steps;
pub(crate) mod trajectories;
pub(crate) mod writer;

use std::sync::Arc;

use paddock_store::Store;

/// A store of its own for one test, with what must live as long as it does.
pub(crate) struct Fresh {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: tempfile::TempDir,
}

/// Makes a test of each function, for a backend that `$open` opens: `async fn() -> Fresh`.
macro_rules! suite {
    ($open:path; $($file:ident: $($test:ident),+;)+) => {
        $(mod $file {
            $(#[tokio::test]
            async fn $test() {
                let fresh = $open().await;
                crate::conformance::$file::$test(std::sync::Arc::clone(&fresh.store)).await;
                drop(fresh.folder);
            })+
        })+
    };
}
pub(crate) use suite;

/// The whole suite.
macro_rules! all {
    ($open:path) => {
        crate::conformance::suite! {
            $open;
            jobs: a_job_reads_back, a_job_is_replaced, an_unknown_job_is_none,
                lists_are_newest_first_in_pages, filters_choose, a_number_that_is_not_finite_is_refused;
            steps: steps_read_back_in_order, a_step_is_replaced, validations_are_apart_from_steps,
                a_step_without_its_job_is_refused;
            trajectories: a_trajectory_reads_back_to_the_bit, a_trajectory_is_replaced,
                lists_are_in_training_order_in_pages, filters_choose, a_page_stays_whole_while_rows_are_added,
                a_reward_that_is_not_finite_is_refused, a_batch_is_written_whole_or_not_at_all,
                text_that_looks_like_a_pattern_is_text;
            calls: a_call_reads_back, the_first_verdict_of_an_attempt_stays, filters_choose,
                a_trajectory_has_its_calls_and_its_groups, lists_are_in_pages,
                a_call_without_its_job_is_refused, numbers_that_are_not_finite_are_refused;
            logs: lines_read_back_in_order_of_time, filters_choose, following_misses_nothing,
                the_latest_come_first_when_asked, a_cursor_of_another_list_is_refused;
            metrics: points_come_by_series_and_time, filters_choose, a_value_that_is_not_finite_is_refused;
            writer: what_is_flushed_is_there, many_writers_lose_nothing, a_failure_is_told_to_everyone,
                the_last_handle_writes_what_is_queued, a_record_larger_than_the_queue_passes;
        }
    };
}
pub(crate) use all;
