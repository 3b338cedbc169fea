"""The reader: which part of a passage answers a question, learned from written pages, chats and questions."""
