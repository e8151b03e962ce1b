//! Whether the identity provider still knows a person, asked when their client renews (OS-8).

use super::grant::kept;
use super::state::LockedGrant;
use super::{Current, Facade};

pub(super) enum PersonCheck {
    There,
    Unclear,
    Gone(&'static str),
}

impl Facade {
    /// Whether the issuer still knows the person (OS-8).
    pub(super) async fn check_standing(
        &self,
        current: &Current,
        locked: &mut LockedGrant,
    ) -> PersonCheck {
        let (grant, now) = (&mut locked.grant, current.now);
        if !grant.needs_check(now) {
            return PersonCheck::There;
        }
        let Some(idp) = self.idp(current) else { return PersonCheck::Unclear };
        let renewal = match idp.renew(grant.idp.clone()).await {
            Ok(renewal) => renewal,
            Err(failed) if failed.is_ended() => {
                tracing::info!(subject = grant.subject, "a person is gone: {failed}");
                return PersonCheck::Gone("the identity provider has ended it; sign in again");
            }
            // A secret that is wrong, too, says nothing of the person.
            Err(failed) => {
                tracing::warn!("a person cannot be asked about: {failed}");
                let is_unclear = grant.is_unchecked(now);
                return if is_unclear { PersonCheck::Unclear } else { PersonCheck::There };
            }
        };
        grant.idp = kept(renewal.tokens);
        grant.checked_at = now;
        let check = match renewal.who {
            Ok(who) if who.subject != grant.subject => {
                return PersonCheck::Gone("the identity provider names another person");
            }
            Ok(who) => {
                (grant.claims, grant.claimed_at) = (current.trim(who.claims), now);
                PersonCheck::There
            }
            Err(failed) => {
                tracing::warn!(
                    subject = grant.subject,
                    "what is said of a person is old: {failed}"
                );
                if !grant.has_old_claims(now) {
                    PersonCheck::There
                } else if failed.is_temporary() {
                    PersonCheck::Unclear
                } else {
                    PersonCheck::Gone(
                        "the identity provider does not say who this is; sign in again",
                    )
                }
            }
        };
        // The refresh token before may be over: whatever comes next, this one is kept.
        if let Err(failed) = locked.save().await {
            tracing::error!("what the identity provider gave is not kept: {failed}");
            return PersonCheck::Unclear;
        }
        check
    }
}
