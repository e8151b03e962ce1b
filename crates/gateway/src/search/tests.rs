//! Questions as people and models ask them, over the tools of sixty servers.

use super::*;

/// Lines of `server | name | description | arguments`.
const TOOLS: &str = include_str!("../../tests/tools.txt");

fn index() -> Index {
    let tools = TOOLS.lines().map(|line| {
        let parts: Vec<_> = line.split('|').map(str::trim).collect();
        let [server, name, description, arguments] = parts[..] else { panic!("{line}") };
        let [server, name, description, arguments] =
            [server, name, description, arguments].map(str::to_owned);
        Document { name, title: String::new(), description, arguments, server }
    });
    let tools: Vec<_> = tools.collect();
    assert!(tools.len() >= 200, "{}", tools.len());
    Index::new(tools)
}

/// The names of the tools that are found.
fn names<'i>(index: &'i Index, question: &str, limit: usize) -> Vec<&'i str> {
    index.find(question, limit).into_iter().map(|number| &*index.names[number]).collect()
}

#[track_caller]
fn check(questions: &[(&str, &str)]) {
    let index = index();
    let mut missed = Vec::new();
    for (question, expected) in questions {
        let found = names(&index, question, 5);
        if !found.contains(expected) {
            missed.push(format!("{question:?} wants {expected}, got {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn questions_in_plain_words_find_their_tool_among_the_first_five() {
    check(&[
        ("open a bug in the repo", "create_issue"),
        ("merge a PR", "merge_pull_request"),
        ("which files were changed in this pull request?", "get_pull_request_files"),
        ("send a message to a slack channel", "slack_post_message"),
        ("reply in a thread", "slack_reply_to_thread"),
        ("rename a file", "move_file"),
        ("show me what is inside a folder", "list_directory"),
        ("find files by pattern", "search_files"),
        ("run a SQL query", "query"),
        ("what columns does the table have", "describe_table"),
        ("take a picture of the web page", "browser_take_screenshot"),
        ("go to a website", "browser_navigate"),
        ("fill in a form", "browser_fill_form"),
        ("save page as pdf", "browser_pdf_save"),
        ("add an appointment to my calendar", "calendar_create_event"),
        ("when is everybody free for a meeting", "calendar_find_free_slots"),
        ("write an email to my boss", "gmail_send"),
        ("search my mailbox", "gmail_search"),
        ("give the customer their money back, refund", "create_refund"),
        ("how much money is in the account balance", "retrieve_balance"),
        ("stop a subscription", "cancel_subscription"),
        ("search the web", "brave_web_search"),
        ("download the contents of a URL", "fetch"),
        ("what time is it in Tokyo timezone", "get_current_time"),
        ("upload a file to an S3 bucket", "s3_put_object"),
        ("how much did we spend on AWS", "cost_get_usage"),
        ("logs of a pod", "kubectl_logs"),
        ("scale deployment to five replicas", "kubectl_scale"),
        ("start a docker container from an image", "run_container"),
        ("play a song", "spotify_play"),
        ("directions from home to work", "maps_directions"),
        ("address to coordinates", "maps_geocode"),
        ("will it rain tomorrow? weather", "get_forecast"),
        ("new todo item due tomorrow", "todoist_create_task"),
        ("mark task done as complete", "todoist_complete_task"),
        ("translate this to German", "translate_text"),
        ("transcript of a youtube video", "get_transcript"),
        ("scientific papers about transformers", "search_papers"),
        ("make an image from a prompt", "generate_image"),
        ("resize image", "resizeImage"),
        ("remove background from photo", "removeBackground"),
        ("read text aloud as speech", "textToSpeech"),
        ("read excel workbook", "readExcelSheet"),
        ("commit my changes", "git_commit"),
        ("run a shell command", "execute_command"),
        ("kill a process", "kill_process"),
        ("evaluate an expression", "calculate"),
        ("bitcoin price cryptocurrency", "get_crypto_price"),
        ("euro dollar exchange rate", "get_exchange_rate"),
        ("flights from Berlin to Paris", "search_flights"),
        ("text message to a phone", "send_sms"),
        ("switch on the light", "turn_on_light"),
        ("retry the failed CI pipeline", "retry_pipeline"),
        ("stack trace of an error", "sentry_get_stacktrace"),
        ("log time on a jira ticket", "jira_add_worklog"),
        ("append rows to a spreadsheet", "sheets_append_rows"),
        ("share a drive document with a colleague", "gdrive_share_file"),
        ("knowledge graph search", "search_nodes"),
        ("ban someone from discord", "discord_ban_member"),
        ("who are the people in the slack workspace", "slack_get_users"),
        ("remove a meeting from the calendar", "calendar_delete_event"),
        ("restart the web deployment", "kubectl_rollout_restart"),
        ("virtual machines that are running", "ec2_describe_instances"),
        ("list of running processes", "list_processes"),
        ("what branches differ", "git_diff"),
        ("hotel in Rome for two nights", "search_hotels"),
        ("stock quote of a company", "get_stock_quote"),
        ("set the heating temperature", "set_thermostat"),
        ("new contact in the CRM", "hubspot_create_contact"),
        ("my assigned linear tickets", "linear_list_my_issues"),
        ("publish a new version release", "create_release"),
        ("emoji reaction", "slack_add_reaction"),
    ]);
}

#[test]
fn a_name_however_written_finds_its_tool_first() {
    let index = index();
    for line in TOOLS.lines() {
        let name = line.split('|').nth(1).unwrap().trim();
        for question in [name.to_owned(), name.replace('_', "-"), name.replace('_', " ")] {
            let found = names(&index, &question, 3);
            assert!(found.contains(&name), "{question}: {found:?}");
        }
    }
    assert_eq!(names(&index, "resize_image", 1), ["resizeImage"]);
}

#[test]
fn the_same_question_has_the_same_answer_and_ties_go_by_name() {
    let document = |name: &str| Document { name: name.to_owned(), ..Document::default() };
    let tools = ["b_x", "a_x", "c_x"].map(document);
    let mut turned = tools.clone();
    turned.reverse();
    for tools in [tools, turned] {
        let index = Index::new(tools);
        assert_eq!(names(&index, "x", 9), ["a_x", "b_x", "c_x"]);
    }
    let (one, two) = (index(), index());
    assert_eq!(one.find("create an issue", 20), two.find("create an issue", 20));
}

#[test]
fn nothing_fits_nonsense_and_nothing_grows_without_bound() {
    let index = index();
    for (question, limit) in [("qwxzv", 5), ("", 5), ("issue", 0)] {
        assert!(index.find(question, limit).is_empty(), "{question}");
    }
    assert!(index.find("the of and", 5).len() <= 5);
    assert!(index.find("get list create", usize::MAX).len() <= MAX_FOUND);
    let long = "issue ".repeat(100_000);
    assert_eq!(index.find(&long, 5), index.find("issue", 5));
    let description = "word ".repeat(10_000) + "needle";
    let name = "t".to_owned();
    let index = Index::new([Document { name, description, ..Document::default() }]);
    assert!(index.find("needle", 5).is_empty(), "what is beyond the bound is not indexed");
    assert_eq!(index.find("word", 5).len(), 1);
    assert!(Index::new([]).find("x", 5).is_empty());
}

fn stems(text: &str) -> String {
    terms(text).map(|term| term.stem).collect::<Vec<_>>().join(" ")
}

#[test]
fn names_are_cut_into_words_however_they_are_written() {
    assert_eq!(stems("getUserById"), "get user by id");
    assert_eq!(stems("get_user_by_id"), "get user by id");
    assert_eq!(stems("Get-User-By-ID"), "get user by id");
    assert_eq!(stems("parseHTTPUrl2"), "pars http url 2");
    assert_eq!(stems("list.pull/requests"), "list pull request");
    assert_eq!(stems("naïveÜber 日本"), "naïve über 日本");
    assert_eq!(stems("__ -- "), "");
}

#[test]
fn endings_do_not_count() {
    for (one, other) in [
        ("issues", "issue"),
        ("repositories", "repository"),
        ("creating", "create"),
        ("created", "create"),
        ("deletes", "delete"),
        ("running", "runs"),
        ("calling", "calls"),
        ("translation", "translate"),
        ("searching", "search"),
    ] {
        assert_eq!(stems(one), stems(other), "{one} and {other}");
    }
    assert_ne!(stems("status"), stems("stat"));
}

#[test]
fn the_tables_are_in_the_form_they_are_looked_up_in() {
    assert!(FILLERS.is_sorted());
    assert!(SAME.iter().all(|set| set.len() > 1));
    assert_eq!(synonyms("bug"), ["issu", "ticket"]);
    assert_eq!(synonyms(&stem("deleting")), ["drop", "eras", "remov"]);
}
