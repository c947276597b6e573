"""Times that somebody has written."""

import datetime


def moment(text: str) -> datetime.datetime:
    """In UTC, unless it says otherwise, and so in any case what is answered: days of the log are days in UTC."""
    found = datetime.datetime.fromisoformat(text)
    try:
        return found.astimezone(datetime.UTC) if found.tzinfo else found.replace(tzinfo=datetime.UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is beyond all times") from error
