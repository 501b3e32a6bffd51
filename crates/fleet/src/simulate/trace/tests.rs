#![expect(clippy::float_cmp, reason = "the numbers are exact in binary")]

use super::*;

fn problem(text: &str) -> String {
    Trace::parse(text).unwrap_err().to_string()
}

#[test]
fn columns_are_found_by_name_or_by_place() {
    let plain = Trace::parse("time_s,rate\n0,50\n15,70\n").unwrap();
    assert_eq!(plain.rows(), [Row { time_s: 0.0, rate: 50.0 }, Row { time_s: 15.0, rate: 70.0 }]);
    assert_eq!(plain.end_s(), 30.0);
    assert_eq!(Trace::parse("0,50\r\n15,70").unwrap(), plain);
    assert_eq!(Trace::parse("\u{feff}# made up\nrate, note, \"time_s\"\n\n50,x,0\n\"70\",,15\n").unwrap(), plain);
    assert_eq!(Trace::parse(&plain.to_csv()).unwrap(), plain);
}

#[test]
fn the_last_rate_holds_as_long_as_the_shortest_other_one() {
    let trace = Trace::parse("0,50\n60,700\n70,100\n1800,50\n").unwrap();
    assert_eq!(trace.end_s(), 1810.0);
}

#[test]
fn of_rows_of_the_same_time_the_last_one_holds() {
    let trace = Trace::parse("0,50\n10,50\n10,700\n20,700").unwrap();
    assert_eq!(trace.rows().len(), 3);
    assert_eq!(trace.seconds().nth(10), Some(700.0));
}

#[test]
fn seconds_hold_every_message_once() {
    let trace = Trace::parse("0.5,10\n1.25,100\n1.75,20\n4,8\n").unwrap();
    let seconds: Vec<f64> = trace.seconds().collect();
    // 0.5 to 1.5: 7.5 and 25; to 2.5: 25 and 15; then 20; to 4.5: 10 and 4, where the trace ends.
    assert_eq!(seconds, [32.5, 40.0, 20.0, 14.0]);
}

#[test]
fn problems_name_the_line_and_the_remedy() {
    assert!(problem("").contains("empty"));
    assert!(problem("time_s,rate\n").contains("empty"));
    assert!(problem("time_s,rate\n0,1\n").contains("one row"));
    assert!(problem("0,1\n0,2\n").contains("one row"));
    assert_eq!(problem("0,1\n5,2\n4,3\n"), "line 3: the time 4 comes after 5: sort the rows by time");
    assert!(problem("time_s,rate\n0,-1\n1,2\n").starts_with("line 2: a rate of -1 is outside 0"));
    assert!(problem("time_s,rate\n0,NaN\n1,2\n").starts_with("line 2: the rate `NaN` is not a number"));
    assert!(problem("time_s,rate\n0,1\n\n1,x\n").starts_with("line 4: the rate `x` is not a number"));
    assert!(problem("time_s,rate\n0\n").starts_with("line 2: `rate` is missing"));
    assert!(problem("time;rate\n0;1\n").starts_with("line 1: there is no column `time_s`"));
    assert!(problem("0,1\n99999999999,2\n").contains("400 are the most"));
}
