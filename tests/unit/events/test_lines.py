"""Line numbers of CSV records."""

from __future__ import annotations

from shoal.events.lines import find_lines

TEXT = (
    b"user,time,site\r\n"  # 1
    b"1,t,a\r\n"  # 2    record 1
    b'2,t,"two\r\n'  # 3    record 2
    b'lines"\r\n'  # 4
    b"\r\n"  # 5    blank
    b"3,t\r\n"  # 6    too few
    b'4,t,"a"b\r\n'  # 7    open quotes
    b"5,t,\xff\r\n"  # 8    not UTF-8 in a used column
    b"\xff,t,c\r\n"  # 9    record 3: the first column is not used
    b"7,t,d"  # 10   record 4
)


def test_lines_of_records_and_of_what_cannot_be_parsed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    lines, broken = find_lines(str(path), ",", 3, [1, 2], {1, 2, 3, 4}, unparsable=9)
    assert lines == {1: 2, 2: 3, 3: 9, 4: 10}
    assert broken == [6, 7, 8]
    assert find_lines(str(path), ",", 3, [1, 2], {2}, unparsable=1) == ({2: 3}, [6])
