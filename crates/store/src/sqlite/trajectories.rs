//! Trajectories: a narrow row for lists, and a payload for the detail.

use paddock_types::TrajectoryId;
use paddock_types::chat::Message;
use paddock_types::trajectory::{Conversation, TrajectoryRecord, TrajectorySummary};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{Row, Sqlite, Transaction};

use super::SqliteStore;
use super::jobs::number;
use super::payload::{Packer, read_json, read_tokens};
use super::select::Select;
use super::trajectory_rows::{SUMMARY, phase_number, position, summary};
use crate::{Cursor, Page, PageRequest, StoreError, TrajectoryFilter};

const READ: &str = "read trajectories";
const WRITE: &str = "record trajectories";

/// What only the detail shows. Tokens are kept apart, in a tenth of the room.
#[derive(Serialize)]
struct Detail<'a> {
    messages: &'a [Message],
    dropped: &'a [Message],
    side: &'a [Vec<Message>],
    extra: &'a Value,
}

/// The same, read back.
#[derive(Deserialize)]
struct OwnedDetail {
    messages: Vec<Message>,
    dropped: Vec<Message>,
    side: Vec<Vec<Message>>,
    extra: Value,
}

pub(super) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    records: &[TrajectoryRecord],
) -> Result<(), StoreError> {
    let mut packer = Packer::default();
    for record in records {
        all_finite(record)?;
        let conversation = &record.conversation;
        let detail = packer.json(
            "a trajectory",
            &Detail {
                messages: &conversation.messages,
                dropped: &conversation.dropped,
                side: &conversation.side,
                extra: &record.extra,
            },
        )?;
        let tokens = packer.tokens(&conversation.tokens);
        put(transaction, &record.summary(), detail, tokens).await?;
    }
    Ok(())
}

async fn put(
    transaction: &mut Transaction<'_, Sqlite>,
    row: &TrajectorySummary,
    detail: Vec<u8>,
    tokens: Vec<u8>,
) -> Result<(), StoreError> {
    let text = |map| {
        serde_json::to_string(map).map_err(|source| StoreError::Encode {
            what: "a trajectory",
            source,
        })
    };
    let mut query = sqlx::query(
        "INSERT INTO trajectories (job, phase, step, sample, generation, status, reward, reason,
             source, excerpt, finish_reason, turns, prompt_tokens, completion_tokens, total_tokens,
             rewards, metrics, ended_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (job, phase, step, sample, generation) DO UPDATE SET
             status = excluded.status, reward = excluded.reward, reason = excluded.reason,
             source = excluded.source, excerpt = excluded.excerpt,
             finish_reason = excluded.finish_reason, turns = excluded.turns,
             prompt_tokens = excluded.prompt_tokens,
             completion_tokens = excluded.completion_tokens, total_tokens = excluded.total_tokens,
             rewards = excluded.rewards, metrics = excluded.metrics, ended_ms = excluded.ended_ms
         RETURNING id",
    );
    for number in position(row.id) {
        query = query.bind(number);
    }
    let id: i64 = query
        .bind(row.status.as_str())
        .bind(row.reward)
        .bind(&row.reason)
        .bind(&row.source)
        .bind(&row.excerpt)
        .bind(&row.finish_reason)
        .bind(i64::from(row.turns))
        .bind(row.usage.prompt_tokens as i64)
        .bind(row.usage.completion_tokens as i64)
        .bind(row.usage.total_tokens as i64)
        .bind(text(&row.rewards)?)
        .bind(text(&row.metrics)?)
        .bind(row.ended_ms)
        .fetch_one(&mut **transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(|source| StoreError::database(WRITE, source))?;
    sqlx::query(
        "INSERT INTO trajectory_payloads (trajectory, conversation, tokens) VALUES (?, ?, ?)
         ON CONFLICT (trajectory) DO UPDATE
         SET conversation = excluded.conversation, tokens = excluded.tokens",
    )
    .bind(id)
    .bind(detail)
    .bind(tokens)
    .execute(&mut **transaction)
    .await
    .map_err(|source| StoreError::database(WRITE, source))?;
    Ok(())
}

/// Refuses what JSON or a column would turn into null.
fn all_finite(record: &TrajectoryRecord) -> Result<(), StoreError> {
    let named = record.rewards.iter().chain(&record.metrics);
    let all = named
        .map(|(name, &value)| (name.as_str(), value))
        .chain(record.reward.map(|value| ("reward", value)));
    for (name, value) in all {
        if !value.is_finite() {
            return Err(StoreError::NotFinite {
                what: format!("\"{name}\" of {}", record.id),
                value,
            });
        }
    }
    Ok(())
}

pub(super) async fn get(
    store: &SqliteStore,
    id: TrajectoryId,
) -> Result<Option<TrajectoryRecord>, StoreError> {
    let failed = |source| StoreError::database(READ, source);
    let mut select = Select::new(
        "SELECT job, phase, step, sample, generation, status, reason, source, excerpt,
             finish_reason, turns, prompt_tokens, completion_tokens, total_tokens, rewards, reward,
             metrics, ended_ms, conversation, tokens
         FROM trajectories JOIN trajectory_payloads ON trajectory = id",
    );
    select.and_row("(job, phase, step, sample, generation) =", &position(id));
    let mut found = select
        .rows(&store.readers, READ, |row| {
            let detail: OwnedDetail =
                read_json(|| id.to_string(), row.try_get(18).map_err(failed)?)?;
            let tokens = read_tokens(|| id.to_string(), row.try_get(19).map_err(failed)?)?;
            Ok(whole(summary(row)?, detail, tokens))
        })
        .await?;
    Ok(found.pop())
}

fn whole(
    row: TrajectorySummary,
    detail: OwnedDetail,
    tokens: paddock_types::trajectory::Tokens,
) -> TrajectoryRecord {
    TrajectoryRecord {
        id: row.id,
        status: row.status,
        reason: row.reason,
        source: row.source,
        conversation: Conversation {
            messages: detail.messages,
            tokens,
            finish_reason: row.finish_reason,
            usage: row.usage,
            turns: row.turns,
            dropped: detail.dropped,
            side: detail.side,
        },
        extra: detail.extra,
        rewards: row.rewards,
        reward: row.reward,
        metrics: row.metrics,
        ended_ms: row.ended_ms,
    }
}

pub(super) async fn list(
    store: &SqliteStore,
    filter: &TrajectoryFilter,
    page: &PageRequest,
) -> Result<Page<TrajectorySummary>, StoreError> {
    let rows = page.rows();
    let mut select = Select::new(SUMMARY);
    select
        .and("job =", filter.job.map(number))
        .and("phase =", filter.phase.map(phase_number))
        .and("step =", filter.step.map(i64::from))
        .and("sample =", filter.sample.map(i64::from))
        .and("status =", filter.status.map(|status| status.as_str()))
        .and("reward >=", filter.min_reward)
        .and("reward <=", filter.max_reward)
        .and_contains("excerpt", filter.text.as_deref());
    if let Some(after) = &page.after {
        select.and_row(
            "(job, phase, step, sample, generation) >",
            &after.keys::<5>()?,
        );
    }
    let found = select
        .push(" ORDER BY job, phase, step, sample, generation")
        .limit(rows)
        .rows(&store.readers, READ, summary)
        .await?;
    Ok(Page::cut(found, rows, |row| Cursor::at(position(row.id))))
}
