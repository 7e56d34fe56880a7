//! Two captures joined for whoever wants to know what became of each flow's packets between them.

use super::feed::{self, Facts, Feed, Naming, Only};
use super::hearing::Hearing;
use super::lines::Lines;
use super::{WINDOW, run_matcher};
use anyhow::Result;
use jitlat_core::passive::flows::{FlowNumbers, Grouping};
use jitlat_core::passive::{
    Estimator, FlowFigures, Flows, IdentityRule, Matcher, NoPlan, PassiveSummary, Plan, survey,
};
use jitlat_core::time::Span;
use jitlat_report::figure::PassiveTrace;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What two points say of each flow.
pub struct Joined {
    pub plan: Plan,
    pub summary: PassiveSummary,
    pub flows: Vec<FlowFigures>,
    pub facts: [Facts; 2],
}

/// Joins the captures of two points; `Err` in the outer result if they cannot be read, in the inner one if
/// they have nothing in common.
pub fn join(
    points: [&[PathBuf]; 2],
    only: Option<Only>,
    trace: Option<&mut Option<Box<PassiveTrace>>>,
) -> Result<Result<Joined, NoPlan>> {
    let feeds = [Feed::open(points[0])?, Feed::open(points[1])?];
    let heads = feeds.each_ref().map(Feed::head);
    let available = heads.iter().map(feed::Head::available).min().unwrap_or(0);
    let previews = heads.each_ref().map(|h| h.previews(available));
    let plan = match survey(&previews[0], &previews[1], None) {
        Err(NoPlan::NothingCommon) => {
            survey(&feed::sample(points[0], available)?, &feed::sample(points[1], available)?, None)
        }
        other => other,
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => return Ok(Err(why)),
    };
    drop((heads, previews));
    let rule = IdentityRule { fields: plan.fields, available };
    let numbers = Arc::new(Mutex::new(FlowNumbers::default()));
    let [a, b] = feeds;
    let streams = [(a, 0), (b, 1)].map(|(feed, k)| {
        feed.begin(Naming {
            sides: plan.sides[k].clone(),
            rule,
            sorted: true,
            only,
            echoes_apart: true,
            flows: Some((Grouping::Flow, Arc::clone(&numbers))),
        })
    });
    let every = Span::seconds(1);
    let mut hearing = Hearing {
        estimator: Estimator::new(every, None),
        streams: None,
        flows: Some(Flows::new(None)),
        trace: trace.is_some().then(|| Box::new(PassiveTrace::new(every))),
    };
    let (facts, counts) =
        run_matcher(Matcher::new(plan.offset, WINDOW), streams, &mut hearing, &mut Lines::none())?;
    let numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
    let flows = hearing.flows.take().map(|f| f.figures(numbers.keys())).unwrap_or_default();
    let summary = hearing.estimator.summary_of(counts);
    if let Some(to) = trace {
        *to = hearing.trace;
    }
    Ok(Ok(Joined { plan, summary, flows, facts }))
}
