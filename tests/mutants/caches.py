"""Correct caches in NumPy, in one array and in pages, to be mutated."""

import numpy as np


class Cache:
    def __init__(self, batch_size, num_kv_heads, head_dim, value_dim, capacity=2):
        shape = (batch_size, num_kv_heads, capacity)
        self.arrays = [np.zeros((*shape, width)) for width in (head_dim, value_dim)]
        self.filled = 0

    def __len__(self):
        return self.filled

    def append(self, key, value):
        stop = self.filled + key.shape[2]
        room = self.arrays[0].shape[2]
        if stop > room:
            more = max(stop, 2 * room) - room
            pad = ((0, 0), (0, 0), (0, more), (0, 0))
            self.arrays = [np.pad(array, pad) for array in self.arrays]
        if key.shape[:2] != self.arrays[0].shape[:2] or key.shape[3] != self.arrays[0].shape[3]:
            raise ValueError("the new tokens do not fit")
        for array, new in zip(self.arrays, (key, value), strict=True):
            array[:, :, self.filled : stop] = new
        self.filled = stop
        return tuple(array[:, :, :stop] for array in self.arrays)

    def crop(self, length):
        self.filled = length


class Pool:
    def __init__(self, num_pages, page_size, num_kv_heads, head_dim, value_dim):
        shape = (num_pages, num_kv_heads, page_size)
        self.key_pages = np.zeros((*shape, head_dim))
        self.value_pages = np.zeros((*shape, value_dim))
        self.page_size = page_size
        self.free_list = list(range(num_pages))
        self.users = [0] * num_pages
        self.tables, self.lengths = {}, {}
        self.made = 0

    @property
    def free_pages(self):
        return len(self.free_list)

    def add(self):
        self.made += 1
        self.tables[self.made], self.lengths[self.made] = [], 0
        return self.made

    def take(self):
        page = self.free_list.pop()
        self.users[page] = 1
        return page

    def append(self, sequence, key, value):
        table, start = self.tables[sequence], self.lengths[sequence]
        stop = start + key.shape[1]
        shared = stop > start and start % self.page_size > 0 and self.users[table[-1]] > 1
        if -(-stop // self.page_size) - len(table) + shared > len(self.free_list):
            raise MemoryError("no free page")
        if shared:
            old, table[-1] = table[-1], self.take()
            self.key_pages[table[-1]] = self.key_pages[old]
            self.value_pages[table[-1]] = self.value_pages[old]
            self.users[old] -= 1
        while len(table) * self.page_size < stop:
            table.append(self.take())
        for place in range(start, stop):
            page, row = table[place // self.page_size], place % self.page_size
            self.key_pages[page, :, row] = key[:, place - start]
            self.value_pages[page, :, row] = value[:, place - start]
        self.lengths[sequence] = stop

    def fork(self, sequence):
        twin = self.add()
        self.tables[twin] = list(self.tables[sequence])
        self.lengths[twin] = self.lengths[sequence]
        for page in self.tables[twin]:
            self.users[page] += 1
        return twin

    def free(self, sequence):
        for page in self.tables.pop(sequence):
            self.users[page] -= 1
            if self.users[page] == 0:
                self.free_list.append(page)
        del self.lengths[sequence]

    def block_table(self, sequences):
        width = max((len(self.tables[s]) for s in sequences), default=0)
        table = [self.tables[s] + [-1] * (width - len(self.tables[s])) for s in sequences]
        return np.array(table, int), np.array([self.lengths[s] for s in sequences])
