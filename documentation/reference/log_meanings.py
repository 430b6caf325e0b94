"""Meanings of the events of the log, for ``log_events``: what has happened, and what follows."""

import re

# event | meaning, also on further lines, which are indented
TABLE = """
act_done | A person or program has changed something by an operation; the audit log has the line, too.
act_not_audited | The database is away, so the line about this act is missing from the audit log; the act was done.
act_refused | An operation that changes something was refused; nothing was changed.
admin_failed | A defect in an operation; the caller has got an error. Report the stack trace.
alert_not_sent | The program of `[alerts]` failed; it is started again.
alert_sent | The program of `[alerts]` was told that a check has another verdict.
audit_not_written | Lines of the audit log could not be written; they wait and are written later, except a line that
    the database refuses for itself.
authorities | The authorities that the hub trusts at its start, and whether it signs certificates itself.
authorities_changed | From now on only these authorities are trusted.
authority_roll_begins | A change of the hub's authority has begun.
authority_roll_leaves | The change of the authority does not wait for these nodes any more; they must enrol again.
authority_roll_phase | The change of the authority has entered its next phase.
authority_withdrawn | The former authority is not trusted any more; sessions by its certificates have ended.
bulk_act_end_not_noted | An act on many messages has ended, and the audit log could not be told.
bulk_act_failed | A defect ended an act on many messages; those before it were done. Report the stack trace.
cannot_begin_again | The engine could not be made again after the loss of the store; the process ends, and the service
    manager starts it again.
carrier_away | The broker between instances of the hub cannot be reached; the instance tries again, and messages for
    other instances wait.
carrier_foreign | The broker between instances has delivered something that no instance has sent. Only instances may
    have access to it.
carrier_joined | This instance is connected with the broker between instances.
carrier_lost | The connection with the broker between instances has ended; a new one follows.
certificate_active | The node uses a new certificate.
certificate_adopted | Certificate and keys were replaced in their files by somebody else and are in use now.
certificate_ends | The node's certificate ends soon or has ended, and was not renewed: see the certificates in the
    operator's guide.
certificate_known | The first certificate of a partner, or one that an earlier certificate or the authority vouches
    for.
certificate_not_adopted | Replaced files of certificate or keys cannot be used; the former ones stay in use.
certificate_not_believed | A certificate that the hub has passed on is not one of this partner; it is ignored.
certificate_not_passed_on | A node has presented a certificate that was revoked, is out of date, or is of another
    authority; partners do not get it.
certificate_of_institution_ends | The certificate of an institution ends soon: its node has not renewed it.
certificate_refused | A login by a certificate that was revoked, is out of date, or is of another authority.
certificate_renewed | The hub has signed a further certificate for a node.
certificate_revoked | A certificate was revoked; its sessions end within seconds.
certificate_unvouched | A partner has a new certificate that none of its earlier ones vouches for, as after the loss
    of its keys. Ask the partner if unexpected.
changes_not_reported | The system reports no changes of the folder, so that it is searched at intervals.
clock_jumped | The clock has jumped ahead by more than a day; nothing is deleted by its age for three days.
clocks_differ | The dates of node and database differ by more than a day; nothing is deleted by its age.
companion_ended | A process beside the node (web, folders, webhooks) has ended; it is started again.
companion_not_started | A process beside the node could not be started; the node tries again.
companion_restarted | A process beside the node was started again with changed settings.
companions_need_a_file | These sections are ignored, because their processes read them in a file.
datagrams_failed | A defect in the channel of datagrams; documents go over the link. Report the stack trace.
datagrams_listen | Datagrams are accepted at this address.
datagrams_not_possible | The channel of datagrams cannot be opened; documents go over the link.
definitions_in_force | The hub works with these institutions and agreements.
definitions_went_back | The control database has older definitions than this instance; the instance keeps its own.
    Import the definitions again.
direct_link_ended | A direct link was ended, because the partner's certificate has expired or was revoked.
document_nacked | A published document was refused by basic.nack; such refusals are reported once in a while, with
    their number.
document_not_joined | A received document in pieces could not be put together; it stays parked.
document_not_written | A received document cannot be written into its folder; it is tried again and is not lost.
document_set_aside | A folder or webhook has refused a document for good: it is parked, with the reason.
documents_missing | The store lacks documents that partners know, as after a restore: `semq node missing`.
engine_began | The engine works with what the store had: unsettled and pending rows.
event_dropped | A webhook did not take an event in time; the outcome can be asked for.
extract_needs_a_file | Scheduled extracts are off, because their process reads the configuration in a file.
fenced | Another process has taken over the store; this one ends.
file_gone | A file was removed before it could be moved; its document was processed.
file_ignored | A file in `out` that is never sent, with the reason.
file_moved | A sent document has failed, and its file is in `failed` now.
file_not_moved | A processed file cannot be moved; it is tried again, and not sent twice.
file_refused | The node has refused a file; it is in `failed`, with the reason beside it.
file_replaced | A file was replaced while it was sent; the new one is another document.
file_sent_again | A file with the same name and content was sent before; it is sent as a new document.
folder_not_read | A folder in `out` cannot be read; its files wait.
folder_waits | The node cannot be reached; the files wait.
folders_served | The folders of these roots are served.
foreign_name | A node has presented a certificate and the name of another node; the login was refused.
homes_moved | Institutions have another store of the hub as their home.
housekeeping | What was deleted by its age, or why nothing was.
housekeeping_failed | Deleting by age failed; it is tried again.
hub_asks_nothing | The hub is of an older version and asks this node no questions about messages.
institution_failed | A defect ended the node of an institution in a virtual server; it is started again. Report the
    stack trace.
institution_fails | The node of an institution cannot be started, or has ended; it is tried again.
institution_not_stopped_in_order | The node of an institution did not stop in time and was left; nothing is lost.
institution_serves | The node of an institution in a virtual server serves.
institutions | The virtual server has tried to start all institutions: their number by state.
job_cut_short | A scheduled job was ended by the stop of the node.
job_paused | A person has paused a scheduled job.
job_put_off | A scheduled job could not run now; it runs at its next time.
job_resumed | A person has resumed a scheduled job.
key_forgotten | A retired private key was deleted after `tls.keep_keys_days`.
keys_encrypted | Private keys that were in clear are encrypted now by the configured passphrase.
lease_ended_with_connection | A document leased by HTTP could not be returned, because the connection to the node had
    ended, which returns it as well.
lease_expired | A document leased by HTTP was neither finished nor returned in time; others get it now.
link_ended | A session was ended, because its certificate has expired or was revoked.
link_without_tls | The link to the hub is not encrypted.
login_refused | The hub has refused the session of a node, for instance because its store is another one.
metrics_without_database | Metrics have only figures that need no database, which is away.
node_away | A process beside the node cannot reach it; it tries again.
node_enrolled | The hub has signed the first certificate of a key.
node_may_come_with_another_store | A person has permitted that this node logs in with another store.
node_restored | A node has logged in with an older store than before, as after a restore; it asks its partners itself.
not_answered | A question of the hub could not be answered, because the session had ended.
not_counted | The number of waiting documents could not be counted; the last one is reported.
not_reloaded | The changed configuration cannot be used, or not now; the former one stays in force.
not_renewed | The certificate could not be renewed; it is tried again.
not_sent | A frame could not be sent on this session; the node asks later and sends it again.
outcome_not_noted | The outcome of a sent file cannot be written beside it; it is tried again.
output_closed | Standard output is closed, so the address of the console was not printed.
partner_refused | A partner's login over a direct link was refused, with the reason.
partner_revoked | A partner's certificate was revoked; its login over a direct link was refused.
password_refused | A login by password was refused, with the reason that the client does not get.
piece_waits | A piece of a large document was refused for now; it is sent again.
pieces_kept | Pieces of a received document could not be deleted yet; they are deleted later.
pieces_not_found | A document in pieces cannot be put together, because pieces are missing.
pieces_removed | Pieces of a document that has ended were removed.
pieces_wait | A large document waits, because its pieces cannot be stored now.
pieces_without_document | Pieces have arrived whose document has not; they are kept for some time.
postgres_not_started | The Postgres of a virtual server has died and cannot be started; it is tried again.
question_failed | A defect in a question of another instance; it has got an error. Report the stack trace.
questions_not_answered | This instance cannot answer questions of others now; it tries again.
ready | The node serves.
released_early | A person has released a scheduled document before its time.
reloaded | Changed settings are in force; `restart` names those that need a restart.
request_failed | A defect in a request of HTTP; the client has got status 500. Report the stack trace.
revoked_key | A node asked for a certificate for a key that was revoked; it must make a new key.
second_session | A node has logged in twice: two processes, or the former session still lives. Never run two copies of
    one node.
section_failed | A part of a process beside the node has failed; it is tried again.
server_reloaded | The virtual server has read its configuration again: what was added, removed and changed.
service_links_ignored | Variables that Kubernetes sets for Services were not taken for settings.
sign_in_refused | A sign-in to the console was refused.
spans_dropped | Spans were dropped, because the collector did not answer.
spans_not_exported | A defect in the export of spans; documents are not affected. Report the stack trace.
standby | Another process owns the store; this one waits, and takes over when its lease has ended.
standby_over | This process has taken over the store.
stopped | The node has stopped.
stopping | The node was asked to stop, or an error has ended it; work in progress is finished.
store_away | The database cannot be reached; the node tries again. Nothing is lost; documents are not accepted
    meanwhile.
store_is_retired | The store of this instance was retired by a person; the instance ends. Never start this store
    again.
store_lost | The connection to the database is lost; the node builds a new engine when it is back.
store_retired | A store of the hub was declared lost: its messages are sent again, or end as their receivers know.
submission_refused | A document submitted by SQL was refused; its row has the reason.
submissions_not_read | Documents submitted by SQL could not be read; it is tried again.
submissions_wait | Documents submitted by SQL for this target wait, with the reason.
target_waits | Files for this target wait, because the node refuses them for now.
telemetry_failed | The collector of spans does not take them; reported once.
telemetry_works | The collector of spans takes them again.
template_faulty | A page of the console has a faulty template; only this page fails. Install the version again.
tls_files_refused | Replaced files of TLS cannot be used; the former ones stay in use.
tls_files_reloaded | Replaced files of TLS are in use.
token_made | A token for one enrolment was made.
token_not_possible | A login by token where none is possible: the hub has no authority, the connection no TLS, or
    there is no such node.
token_refused | A token for enrolment was wrong, used, or too old.
token_used_twice | A token was used a second time: perhaps somebody has stolen it. Revoke the certificate with this
    serial number if it is not the node's.
transfer_failed | A defect in the transfer of a large document; it is begun again. Report the stack trace.
unknown_node | A node with a valid certificate that is not in the definitions; the login was refused.
uplink_down | The hub cannot be reached; the node tries again, and documents wait.
uplink_failed | A defect at the end of a session; a new session follows. Report the stack trace.
uplink_lost | The session with the hub has ended; a new one follows.
uplink_up | The node is connected with the hub.
wall_clock_jumped | The wall clock was changed; intervals are not affected.
web_serves | Console and HTTP API are served at this address.
webhook_failed | A webhook did not take a document; it is tried again.
webhooks_served | These webhooks are served.
port_without_tls | The AMQP port is open to other machines without TLS.
"""
ROWS = [row.partition(" | ")[::2] for row in re.sub(r"\n +", " ", TABLE.strip()).splitlines()]
MEANINGS = dict(ROWS)
