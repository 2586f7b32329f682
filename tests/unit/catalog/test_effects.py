"""What a name suggests of a tool's effect, and that doubt is resolved on the safe side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.catalog import Effect, infer_effect

READS = """
    get_order_details listAllProducts HTTPSearch look_up_user calculate find_and_rank_offers get_terms_and_conditions
    read_file read_text_file read_multiple_files list_directory list_directory_with_sizes directory_tree search_files
    get_file_info list_allowed_directories git_status git_diff git_diff_unstaged git_diff_staged git_log git_show
    read_graph search_nodes fetch fetch_url get_current_time convert_time read_query list_tables describe_table
    brave_web_search brave_local_search search_repositories get_file_contents list_commits list_issues get_issue
    search_code search_users get_pull_request get_pull_request_files get_pull_request_diff list_branches
    maps_geocode API-get-user API-retrieve-a-page slack_list_channels slack_get_users get_channel_history
    find_user_id_by_email find_user_id_by_name_zip get_user_details get_product_details list_all_product_types
    search_direct_flight search_onestop_flight list_all_airports get_reservation_details think
    ls cat pwd grep wc du tail find diff displayCarStatus estimate_distance check_tire_pressure gallon_to_liter
    liter_to_gallon find_nearest_tire_shop get_zipcode_based_on_city get_flight_cost compute_exchange_rate
    retrieve_invoice verify_traveler_information view_messages_sent search_messages get_stock_info get_watchlist
    filter_stocks_by_price get_order_history get_user_tickets logarithm mean square_root standard_deviation
    si_unit_conversion absolute_value list_all_following get_tweet users.list issues.get summarize_document
    translate_text is_prime web_search wikipedia_search getWeather get-alerts get-forecast describe_workbook
    list_buckets describe_instances query_users track_package preview_invoice lookup_customer load_customer count_rows
    git__git_log time__convert_time filesystem__directory_tree delete-o-matic__list_jobs
    get_book_details find_refund_options fetch_purchase_record get_share_price get_user_login_status retrieve_deposit
    reddit_get_posts ticket_get_login_status message_get_login_status kubectl_describe_pods okx_get_price
    API-get-block-children API-retrieve-a-block pods_list events_list channels_list issue_read order_status
    order_details message_history API-post-search semantic_search model_details movie_details pdf_read dictionary_lookup
    filesystem-read_file pdf-tools-search_pages google_sheet-list_sheets rail_12306-get-tickets
    canvas-canvas_list_courses snowflake-read_query howtocook-mcp_howtocook_getAllRecipes
    canvas__canvas_list_courses list-user_items
"""
NOT_READS = """
    cancel_pending_order return_delivered_order_items get_or_create_user find_and_replace check_in_guest check_out
    prepare_shipment x open_nodes open_url open_issue fetch_and_store get_and_frobnicate search_and_book write_file
    edit_file create_directory move_file git_commit git_add git_reset git_create_branch git_checkout git_init
    git_branch git_fetch git_stash git_push create_entities add_observations delete_entities write_query create_table
    append_insight query sql_query query_database run_query execute_query execute_sql run_command execute_command
    puppeteer_navigate puppeteer_click puppeteer_evaluate browser_click browser_type browser_select_option
    browser_navigate browser_evaluate browser_file_upload create_or_update_file push_files fork_repository
    merge_pull_request add_issue_comment mark_all_notifications_read dismiss_notification request_copilot_review
    API-patch-page API-post-page API-delete-a-block slack_post_message slack_reply_to_thread send_message
    transfer_to_human_agents book_reservation send_certificate update_reservation_baggages
    modify_pending_order_address exchange_delivered_order_items cd echo sort touch mkdir rm mv cp rmdir startEngine
    lockDoors fillFuelTank activateParkingBrake setCruiseControl pressBrakePedal set_navigation book_flight
    purchase_insurance register_credit_card contact_customer_support post_tweet retweet comment mention follow_user
    place_order fund_account make_transaction update_stock_price notify_price_change add_to_watchlist create_ticket
    resolve_ticket close_ticket add message_login search_replace list_add list_push view_create search.delete_index
    indices.delete search__delete_all rebuild_search_index purge_search_index flush_log empty_list reset_status
    warm_cache_lookup read_and_clear query_to_csv read_file_into_table export_report convert_lead convert_file convert
    load_extension load load_csv extract_zip verify_email show_notification track_event get_update_lock eval evaluate
    set_status sequentialthinking generate_image classify_tools select_seat sync_list clear_search_history
    get_book_and_pay list_book search_book check_call find_run_command warm_lookup pause_search force_fetch import_list
    order_list_items order_now post_message get_and_share sync_get_items export_details update_details archive_list
    place_order_status report_status reserve_get_seat focus_list process_list fetch_into_book get_type_write
    deleteUserQuery pop_message receive_messages lookup_then_delete list_users_and_notify toggle_view schedule_check
    send-list_items filesystem-write_file k8s_prod-delete-pod mail-sweep_read process__process_list read_all-reset
    delete_all-list-items focus-warm_lookup
"""


@pytest.mark.parametrize("name", READS.split())
def test_a_name_that_plainly_reads_is_a_read(name: str) -> None:
    """Names of public tools that only read are recognised in every spelling."""
    assert infer_effect(name) is Effect.READ


@pytest.mark.parametrize("name", NOT_READS.split())
def test_no_name_that_may_write_is_a_read(name: str) -> None:
    """A tool that changes something, or that may, is never taken for a read."""
    assert infer_effect(name) is not Effect.READ


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("cancel_pending_order", Effect.WRITE),
        ("return_delivered_order_items", Effect.WRITE),
        ("get_or_create_user", Effect.WRITE),
        ("find_and_replace", Effect.WRITE),
        ("fetch_and_store", Effect.WRITE),
        ("git_commit", Effect.WRITE),
        ("check_in_guest", Effect.UNKNOWN),
        ("prepare_shipment", Effect.UNKNOWN),
        ("open_nodes", Effect.UNKNOWN),
        ("query", Effect.UNKNOWN),
        ("run_output", Effect.UNKNOWN),
        ("ci__report_ids", Effect.UNKNOWN),
        ("run_query", Effect.WRITE),
        ("delete_ids", Effect.WRITE),
        ("x", Effect.UNKNOWN),
        ("", Effect.UNKNOWN),
    ],
)
def test_what_is_unclear_is_unknown(name: str, effect: Effect) -> None:
    """A verb that acts makes a write; a verb that goes both ways, or none, tells nothing."""
    assert infer_effect(name) is effect


ACTING = (
    "delete",
    "create",
    "update",
    "send",
    "set",
    "add",
    "move",
    "run",
    "exec",
    "eval",
    "cancel",
    "reserve",
    "remove",
)


@given(
    st.lists(st.sampled_from(["get", "list", "user", "files", "all", "search", "by", "id"]), min_size=0, max_size=4),
    st.sampled_from(ACTING),
    st.lists(st.sampled_from(["user", "file", "list", "search", "now"]), max_size=3),
    st.sampled_from(["_", "-", ".", "camel"]),
)
def test_a_verb_that_acts_is_never_overlooked(before: list[str], verb: str, after: list[str], way: str) -> None:
    """Wherever in a name an acting verb stands and however the name is spelt, the tool does not count as a read."""
    words = [*before, verb, *after]
    name = "".join(word.capitalize() for word in words) if way == "camel" else way.join(words)
    assert infer_effect(name) is not Effect.READ


@given(st.text(max_size=80))
def test_any_text_has_an_effect(name: str) -> None:
    """No name breaks the inference, and asking twice gives the same."""
    assert infer_effect(name) is infer_effect(name)
