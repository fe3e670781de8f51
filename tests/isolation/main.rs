//! What a plugin can't do, tried by one that wants to: through the real runtime, as whoever runs the tests
//! and, if that is root, as an ordinary user too.

mod attempts;
mod network;
mod prisoner;

use prisoner::{Prisoner, users};
use serde_json::json;

/// What every user's fence must hold.
fn each(test: impl Fn(&Prisoner)) {
    for user in users() {
        test(&Prisoner::new(user));
    }
}

#[test]
fn files_of_the_host_of_paddock_and_of_others_are_out_of_sight() {
    each(attempts::read);
}

#[test]
fn nothing_is_written_but_its_own() {
    each(attempts::write);
}

#[test]
fn system_calls_that_no_plugin_needs_are_refused() {
    each(|prisoner| {
        prisoner.held(&json!({"try": "system_calls"}));
        prisoner.held(&json!({"try": "namespaces_by_clone"}));
    });
}

#[test]
fn there_is_no_privilege_and_no_way_to_one() {
    each(|prisoner| {
        prisoner.held(&json!({"try": "privileges"}));
        prisoner.held(&json!({"try": "setuid_program"}));
    });
}

#[test]
fn processes_of_the_host_are_out_of_reach() {
    each(attempts::processes);
}

#[test]
fn nothing_is_inherited() {
    each(|prisoner| {
        prisoner.held(&json!({"try": "environment"}));
        prisoner.held(&json!({"try": "descriptors"}));
    });
}

#[test]
fn sockets_without_a_file_are_out_of_reach() {
    each(attempts::abstract_socket);
}

#[test]
fn a_full_disk_is_the_plugins_own() {
    each(|prisoner| {
        let space = prisoner::SPACE;
        prisoner.held(&json!({"try": "fill", "space": space}));
    });
}

#[test]
fn honest_plugins_do_what_they_need() {
    each(|prisoner| prisoner.held(&json!({"try": "innocence"})));
}

#[test]
fn nothing_is_left_behind() {
    each(attempts::leftovers);
}

#[test]
fn without_a_network_only_the_doors_are_reached() {
    each(network::none);
}

#[test]
fn through_the_egress_proxy_only_what_is_allowed_is_reached_and_counted() {
    each(network::proxy);
}
